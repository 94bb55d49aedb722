#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

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

void remove_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) log().warn("cannot remove the old checkpoint " + path + ": " + error.message());
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

std::optional<std::string> find_latest(const std::string& folder, std::vector<std::string>* complaints) {
  std::vector<std::string> names = checkpoints_in(folder);
  const std::string latest = read_latest(folder);
  if (!latest.empty()) {
    std::erase(names, latest);
    names.insert(names.begin(), latest);
  }
  for (const std::string& name : names) {
    try {
      read_attributes(folder + "/" + name);
      return folder + "/" + name;
    } catch (const Error& error) {
      complaints->push_back(std::string("passed over: ") + error.what());
    }
  }
  return std::nullopt;
}

void set_latest(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/latest", part = path + std::string(k_unfinished);
  write_synced(part, name + "\n");
  if (std::rename(part.c_str(), path.c_str()) == 0) return;
  throw Error(Exit::data, part + ": cannot be renamed to " + path + ": " + std::strerror(errno));
}

void retire_old(const std::string& folder, std::int64_t keep) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(k_unfinished) && step_of(name.substr(0, name.size() - k_unfinished.size())) >= 0)
      remove_file(entry.path().string());
  }
  if (keep <= 0) return;
  const std::vector<std::string> names = checkpoints_in(folder);
  const std::string latest = read_latest(folder);
  for (std::size_t i = static_cast<std::size_t>(keep); i < names.size(); ++i) {
    if (names[i] != latest) remove_file(folder + "/" + names[i]);
  }
}

}  // namespace trireme
