#include "trireme/train/restarts.h"

#include <filesystem>
#include <fstream>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

std::string file_in(const std::string& run_folder) {
  return run_folder + "/starts.txt";
}

// FNV-1a: tells decks apart, no more.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 1469598103934665603U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace

void note_start(const std::string& run_folder, std::int64_t step, const std::string& deck_text, std::int64_t allowed) {
  std::int64_t before = 0, from = -1;
  std::uint64_t hash = 0;
  std::ifstream in(file_in(run_folder));
  const bool same = in >> before >> from >> hash && from == step && hash == hash_of(deck_text);
  const std::int64_t starts = same ? before + 1 : 1;
  if (allowed > 0 && starts > allowed) {
    throw Error(
        Exit::rank,
        format("this run was started %lld times from step %lld and saved nothing: run.max_restarts = %lld. Look "
               "for the cause in %s/log.txt and in the output of those jobs; then start with another setting, "
               "or remove %s",
               static_cast<long long>(before), static_cast<long long>(step), static_cast<long long>(allowed),
               run_folder.c_str(), file_in(run_folder).c_str()));
  }
  std::ofstream out(file_in(run_folder));
  out << starts << ' ' << step << ' ' << hash_of(deck_text) << '\n';
  out.close();
  if (!out) throw Error(Exit::data, "cannot write " + file_in(run_folder) + ": check its permissions and free space");
}

void note_progress(const std::string& run_folder) {
  std::error_code ignored;  // a file that stays counts starts from a step that has passed
  std::filesystem::remove(file_in(run_folder), ignored);
}

}  // namespace trireme
