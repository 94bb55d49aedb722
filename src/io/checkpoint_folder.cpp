#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "checkpoint_file.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/io/checkpoint.h"

namespace trireme {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_before = "step_", k_after = ".h5", k_unfinished = ".part";

// The step in "step_00000100.h5", or -1 for any other name.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(k_before) || !name.ends_with(k_after) || name.size() < k_before.size() + k_after.size() + 8)
    return -1;
  name = name.substr(k_before.size(), name.size() - k_before.size() - k_after.size());
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc{} && end == name.data() + name.size() ? step : -1;
}

// Names of the checkpoints in the folder, newest first. No folder: none.
std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (step_of(entry.path().filename().string()) >= 0) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return step_of(a) > step_of(b); });
  return names;
}

std::string read_latest(const std::string& folder) {
  std::string name;
  std::getline(std::ifstream(folder + "/latest"), name);
  return name;
}

// A file, or a folder with all that is in it.
void remove(const std::string& path, std::vector<std::string>& complaints) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) complaints.push_back("cannot remove the old checkpoint " + path + ": " + error.message());
}

// Folders that belong to the checkpoints here, or nothing when one of them cannot be read: then none may be removed.
std::optional<std::set<std::string>> folders_in_use(const std::string& folder) {
  std::set<std::string> used;
  try {
    for (const std::string& name : checkpoints_in(folder)) {
      const Attributes attributes = read_attributes(folder + "/" + name);
      if (const auto found = attributes.find(k_folder_name); found != attributes.end()) used.insert(found->second);
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return used;
}

// Writes all of `text` and brings it to the disk, or throws.
void write_synced(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool done =
      file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
  const int error = errno;
  if (file >= 0) done = ::close(file) == 0 && done;
  if (!done) throw Error(Exit::data, path + ": cannot be written: " + std::strerror(error));
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  return format("step_%08lld.h5", static_cast<long long>(step));
}

std::vector<std::string> find_checkpoints(const std::string& folder, std::vector<std::string>* complaints) {
  std::vector<std::string> names = checkpoints_in(folder), good;
  const std::string latest = read_latest(folder);
  if (!latest.empty()) {
    std::erase(names, latest);
    names.insert(names.begin(), latest);
  }
  for (const std::string& name : names) {
    try {
      read_attributes(folder + "/" + name);
      good.push_back(folder + "/" + name);
    } catch (const Error& error) {
      complaints->push_back(error.what());
    }
  }
  return good;
}

void set_latest(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/latest", part = path + std::string(k_unfinished);
  write_synced(part, name + "\n");
  if (std::rename(part.c_str(), path.c_str()) == 0) return;
  throw Error(Exit::data, part + ": cannot be renamed to " + path + ": " + std::strerror(errno));
}

std::vector<std::string> retire_old(const std::string& folder, std::int64_t keep, std::int64_t keep_every) {
  std::vector<std::string> complaints;
  const std::string latest = read_latest(folder);
  const std::vector<std::string> names = checkpoints_in(folder);
  for (std::size_t i = static_cast<std::size_t>(std::max<std::int64_t>(keep, 0)); keep > 0 && i < names.size(); ++i) {
    const bool for_ever = keep_every > 0 && step_of(names[i]) % keep_every == 0;
    if (names[i] != latest && !for_ever) remove(folder + "/" + names[i], complaints);
  }
  const std::optional<std::set<std::string>> used = folders_in_use(folder);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool unfinished = name.starts_with(k_before) && name.ends_with(k_unfinished);
    const bool orphan =
        name.starts_with(k_before) && name.find(".files") != std::string::npos && used && !used->contains(name);
    if (unfinished || orphan) remove(entry.path().string(), complaints);
  }
  return complaints;
}

std::vector<std::string> commit_checkpoint(const std::string& folder, std::int64_t step, std::int64_t keep,
                                           std::int64_t keep_every, Communicator& control) {
  std::vector<std::string> complaints;
  Ranks(control).first_alone([&] {
    set_latest(folder, checkpoint_name(step));
    complaints = retire_old(folder, keep, keep_every);
  });
  return complaints;
}

}  // namespace trireme
