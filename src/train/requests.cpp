#include "trireme/train/requests.h"

#include <csignal>
#include <cstring>
#include <filesystem>

#include "trireme/train/stop.h"

namespace trireme {

namespace {

// What one rank asks for, as a number; the largest of all ranks is granted. A stop by signal S is k_signal + S.
enum Code : int { k_nothing = 0, k_save_file = 1, k_stop_file = 2, k_minutes = 3, k_job_end = 4, k_signal = 100 };

constexpr double k_seconds_between_looks = 1;  // at the run folder: a stat on a parallel file system is no small thing
constexpr double k_assumed_bytes_per_second = 1e9;  // of the first save

std::string text_of(int code) {
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
  if (file_asks("stop")) return k_stop_file;
  return file_asks("save") ? k_save_file : k_nothing;
}

Request Requests::next() {
  const int code = session_.largest(mine());
  if (code == k_nothing) return {};
  if (session_.rank() == 0 && (code == k_save_file || code == k_stop_file)) {
    std::error_code ignored;  // a file that stays asks again
    std::filesystem::remove(std::filesystem::path(deck_.run.output) / (code == k_save_file ? "save" : "stop"), ignored);
  }
  return {code == k_save_file ? Wish::save : Wish::stop, text_of(code)};
}

}  // namespace trireme
