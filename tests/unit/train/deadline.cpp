#include "trireme/train/deadline.h"

#include <cstdlib>

#include "catch.h"
#include "trireme/train/stop.h"

using namespace trireme;

namespace {

// Unix time of a local wall-clock time, by way of the C library alone.
double local(int year, int month, int day, int hour, int minute, int second) {
  std::tm moment{};
  moment.tm_year = year - 1900, moment.tm_mon = month - 1, moment.tm_mday = day;
  moment.tm_hour = hour, moment.tm_min = minute, moment.tm_sec = second, moment.tm_isdst = -1;
  return static_cast<double>(std::mktime(&moment));
}

Deadline::Ask never_moved() {
  return [] { return std::nullopt; };
}

RunDeck deck_of(double max_minutes, double margin_minutes) {
  RunDeck deck;
  deck.max_minutes = max_minutes;
  deck.margin_minutes = margin_minutes;
  return deck;
}

Deadline ending_in(const RunDeck& run, double seconds, double first_save, const Deadline::Ask& ask) {
  return {run, wall_seconds(), first_save, JobEnd{unix_seconds() + seconds, "test"}, ask};
}

}  // namespace

TEST_CASE("durations: high is the largest of few and stays below rare peaks of many") {
  Durations few, many;
  for (const double s : {1.0, 3.0, 2.0}) few.add(s);
  for (int i = 0; i < 1000; ++i) many.add(i == 700 ? 50.0 : 1.0);

  CHECK(Durations{}.high() == 0);
  CHECK(few.high() == 3);
  CHECK(many.high() == 1);
}

TEST_CASE("durations: what is long ago is forgotten") {
  Durations times;
  for (int i = 0; i < 100; ++i) times.add(9);
  for (int i = 0; i < 512; ++i) times.add(1);

  CHECK(times.high() == 1);
}

TEST_CASE("scontrol: the end of a job is read in local time; a job without one has none") {
  const std::string job = "JobId=7 JobName=x StartTime=2026-11-30T20:00:00 EndTime=2026-11-30T21:30:05 Deadline=N/A";

  CHECK(end_time_in(job) == local(2026, 11, 30, 21, 30, 5));
  CHECK_FALSE(end_time_in("JobId=7 StartTime=2026-11-30T20:00:00 EndTime=Unknown Deadline=N/A").has_value());
  CHECK_FALSE(end_time_in("JobId=7 EndTime=").has_value());
  CHECK_FALSE(end_time_in("").has_value());
}

TEST_CASE("deadline: without a limit a run never stops") {
  const RunDeck run = deck_of(0, 1);
  Deadline deadline(run, wall_seconds(), 1e9, std::nullopt, never_moved());
  deadline.step_took(1e9);

  CHECK(deadline.reached() == Deadline::Limit::none);
}

TEST_CASE("deadline: a step, a save and the margin must fit before the end of the job") {
  const RunDeck run = deck_of(0, 2);
  Deadline roomy = ending_in(run, 131 + 20, 10, never_moved()), tight = ending_in(run, 129, 10, never_moved());
  Deadline slow_save = ending_in(run, 131 + 20, 10, never_moved());
  slow_save.save_took(60);
  Deadline slow_step = ending_in(run, 131 + 20, 10, never_moved());
  slow_step.step_took(60);

  CHECK(roomy.reached() == Deadline::Limit::none);
  CHECK(tight.reached() == Deadline::Limit::job);
  CHECK(slow_save.reached() == Deadline::Limit::job);
  CHECK(slow_step.reached() == Deadline::Limit::job);
}

TEST_CASE("deadline: Slurm is asked once more when the end is near, and believed") {
  const RunDeck run = deck_of(0, 1);
  int asked = 0;
  const auto moved = [&]() -> std::optional<JobEnd> { return ++asked, JobEnd{unix_seconds() + 3600, "test"}; };
  Deadline deadline = ending_in(run, 30, 0, moved);

  CHECK(deadline.reached() == Deadline::Limit::none);
  CHECK(deadline.reached() == Deadline::Limit::none);
  CHECK(asked == 1);
}

TEST_CASE("deadline: run.max_minutes counts from the start of the program") {
  const RunDeck run = deck_of(1, 0);
  Deadline early(run, wall_seconds() - 10, 0, std::nullopt, never_moved());
  Deadline late(run, wall_seconds() - 61, 0, std::nullopt, never_moved());

  CHECK(early.reached() == Deadline::Limit::none);
  CHECK(late.reached() == Deadline::Limit::minutes);
}
