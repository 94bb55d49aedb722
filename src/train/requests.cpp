#include "trireme/train/requests.h"

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "trireme/train/stop.h"

namespace trireme {

namespace {

// What one rank asks for, as a number; the largest of all ranks is granted. A stop by signal S is k_signal + S.
enum Code : int {
  k_nothing = 0,
  k_profile_file = 1,
  k_save_file = 2,
  k_stop_file = 3,
  k_minutes = 4,
  k_job_end = 5,
  k_signal = 100
};

const char* file_of(int code) {
  constexpr std::array<const char*, k_stop_file + 1> names{"", "profile", "save", "stop"};
  return code <= k_stop_file ? names[static_cast<std::size_t>(code)] : "";
}

constexpr double k_seconds_between_looks = 1;  // at the run folder: a stat on a parallel file system is no small thing
constexpr double k_assumed_bytes_per_second = 1e9;  // of the first save

std::string text_of(int code) {
  if (code == k_profile_file) return "the file `profile` in the run folder asks for a trace of the next steps";
  if (code == k_save_file) return "the file `save` in the run folder asks for a checkpoint";
  if (code == k_stop_file) return "the file `stop` in the run folder asks to stop";
  if (code == k_minutes) return "run.max_minutes leaves no time for another step and a save";
  if (code == k_job_end) return "the batch job ends before another step and a save are done";
  if (code > k_signal) return std::string("signal: ") + strsignal(code - k_signal);
  return "";
}

std::optional<JobEnd> job_end() {
  const std::optional<JobEnd> end = job_end_from_environment();
  return end ? end : job_end_from_scontrol();
}

}  // namespace

Requests::Requests(const Deck& deck, const MpiSession& session, double start, double state_bytes)
    : deck_(deck),
      session_(session),
      deadline_(deck.run, start, state_bytes / k_assumed_bytes_per_second,
                session.rank() == 0 ? job_end() : std::nullopt, job_end_from_scontrol) {}

bool Requests::file_asks(const char* name) const {
  std::error_code ignored;  // a run folder that cannot be read asks for nothing
  return std::filesystem::exists(std::filesystem::path(deck_.run.output) / name, ignored);
}

int Requests::mine() {
  if (received_signal() != 0) return k_signal + received_signal();
  if (session_.rank() != 0) return k_nothing;
  const Deadline::Limit limit = deadline_.reached();
  if (limit == Deadline::Limit::job) return k_job_end;
  if (limit == Deadline::Limit::minutes) return k_minutes;
  if (wall_seconds() - last_look_ < k_seconds_between_looks) return k_nothing;
  last_look_ = wall_seconds();
  for (const int code : {k_stop_file, k_save_file, k_profile_file}) {
    if (file_asks(file_of(code))) return code;
  }
  return k_nothing;
}

Request Requests::next() {
  const int code = session_.largest(mine());
  if (code == k_nothing) return {};
  if (session_.rank() == 0 && code <= k_stop_file) {
    std::error_code ignored;  // a file that stays asks again
    std::filesystem::remove(std::filesystem::path(deck_.run.output) / file_of(code), ignored);
  }
  const Wish wish = code == k_profile_file ? Wish::profile : code == k_save_file ? Wish::save : Wish::stop;
  return {wish, text_of(code)};
}

}  // namespace trireme
