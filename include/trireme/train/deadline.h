#pragma once
// How much time a run has left: the end of the batch job, run.max_minutes, and what steps and saves took so far. It
// reads the clock and asks Slurm; whether and how the run stops is decided elsewhere.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/deck/run_deck.h"

namespace trireme {

double unix_seconds();  // since 1970

// The last durations of one kind of work; high() is what 99 of 100 stay below (the largest of few).
class Durations {
 public:
  void add(double seconds);
  double high() const;  // 0 without any
  bool empty() const { return last_.empty(); }

 private:
  std::vector<double> last_;  // a ring
  std::size_t next_ = 0;
};

// EndTime in what `scontrol --oneliner show job ID` prints, in seconds since 1970; nothing for Unknown or no such
// field.
std::optional<double> end_time_in(const std::string& scontrol_text);

// When the job ends: SLURM_JOB_END_TIME, else scontrol. Nothing outside Slurm and for jobs without a limit.
struct JobEnd {
  double unix_time = 0;
  std::string source;
};
std::optional<JobEnd> job_end_from_environment();
std::optional<JobEnd> job_end_from_scontrol();

class Deadline {
 public:
  // start: wall_seconds() of the start of the program. first_save: seconds to assume until a save has been timed.
  // ask_again: the job's end when the known one is near; limits may have been moved.
  using Ask = std::function<std::optional<JobEnd>()>;
  Deadline(const RunDeck& run, double start, double first_save, std::optional<JobEnd> job_end, Ask ask_again);

  void step_took(double seconds) { steps_.add(seconds); }
  void save_took(double seconds) { saves_.add(seconds); }

  enum class Limit : std::uint8_t { none, job, minutes };
  Limit reached();  // no time is left for one more step and a save
  std::string describe() const;

 private:
  double needed() const;

  const RunDeck& run_;
  double start_, first_save_;
  std::optional<JobEnd> job_end_;
  Ask ask_again_;
  Durations steps_, saves_;
};

}  // namespace trireme
