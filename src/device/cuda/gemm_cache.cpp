#include "gemm_cache.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "trireme/base/log.h"

namespace trireme {

namespace {
std::string cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/trireme";
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/trireme";
}

std::string line_of(const GemmKey& key, const GemmChoice& choice) {
  std::string line;
  for (const std::int64_t part : key) line += format("%lld ", static_cast<long long>(part));
  line += ":";
  for (const std::uint64_t word : choice.algorithm) line += format(" %llx", static_cast<unsigned long long>(word));
  return line + format(" %llu %.6g\n", static_cast<unsigned long long>(choice.workspace), choice.milliseconds);
}

std::optional<std::pair<GemmKey, GemmChoice>> parse(const std::string& line) {
  std::istringstream in(line);
  GemmKey key{};
  GemmChoice choice;
  char colon = 0;
  for (std::int64_t& part : key) in >> part;
  in >> colon;
  for (std::uint64_t& word : choice.algorithm) in >> std::hex >> word;
  in >> std::dec >> choice.workspace >> choice.milliseconds;
  if (!in || colon != ':') return std::nullopt;
  return std::pair(key, choice);
}
}  // namespace

GemmCache::GemmCache(const std::string& file_name) {
  const std::string folder = file_name.empty() ? "" : cache_folder();
  if (folder.empty()) return;
  path_ = folder + "/" + file_name;
  read();
}

// The first line of a problem counts, so that processes that measured it at the same time agree from then on.
void GemmCache::read() {
  std::ifstream file(path_);
  for (std::string line; std::getline(file, line);) {
    if (const auto entry = parse(line)) choices_.emplace(*entry);
  }
}

std::optional<GemmChoice> GemmCache::find(const GemmKey& key) const {
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

void GemmCache::put(const GemmKey& key, const GemmChoice& choice) {
  choices_[key] = choice;
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  std::FILE* const file = std::fopen(path_.c_str(), "a");
  const std::string line = line_of(key, choice);
  const bool written = file != nullptr && std::fwrite(line.data(), 1, line.size(), file) == line.size();
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed) log().debug("cannot append to " + path_ + ": matrix products are measured again next time");
}

}  // namespace trireme
