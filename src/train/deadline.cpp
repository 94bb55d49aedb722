#include "trireme/train/deadline.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "trireme/base/log.h"
#include "trireme/train/stop.h"

namespace trireme {

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// --- durations

namespace {

constexpr std::size_t k_kept = 512;

}  // namespace

void Durations::add(double seconds) {
  if (last_.size() < k_kept) {
    last_.push_back(seconds);
    return;
  }
  last_[next_] = seconds;
  next_ = (next_ + 1) % k_kept;
}

double Durations::high() const {
  if (last_.empty()) return 0;
  std::vector<double> sorted = last_;
  const std::size_t at = std::min(sorted.size() - 1, sorted.size() * 99 / 100);
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at), sorted.end());
  return sorted[at];
}

// --- the end of the job

std::optional<double> end_time_in(const std::string& scontrol_text) {
  const std::string key = " EndTime=";
  const std::size_t at = scontrol_text.find(key);
  if (at == std::string::npos) return std::nullopt;
  std::tm moment{};
  if (strptime(scontrol_text.c_str() + at + key.size(), "%Y-%m-%dT%H:%M:%S", &moment) == nullptr) return std::nullopt;
  moment.tm_isdst = -1;
  const std::time_t seconds = std::mktime(&moment);
  if (seconds <= 0) return std::nullopt;
  return static_cast<double>(seconds);
}

std::optional<JobEnd> job_end_from_environment() {
  const char* text = std::getenv("SLURM_JOB_END_TIME");
  const double end = text != nullptr ? std::atof(text) : 0;
  if (end <= 0) return std::nullopt;
  return JobEnd{end, "SLURM_JOB_END_TIME"};
}

std::optional<JobEnd> job_end_from_scontrol() {
  const char* job = std::getenv("SLURM_JOB_ID");
  if (job == nullptr || std::string(job).find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  std::FILE* pipe = popen(("scontrol --oneliner show job " + std::string(job) + " 2> /dev/null").c_str(), "re");
  if (pipe == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 4096> part{};
  while (std::fgets(part.data(), static_cast<int>(part.size()), pipe) != nullptr) text += part.data();
  if (pclose(pipe) != 0) return std::nullopt;
  const std::optional<double> end = end_time_in(text);
  if (!end) return std::nullopt;
  return JobEnd{*end, "scontrol"};
}

// --- the deadline

Deadline::Deadline(const RunDeck& run, double start, double first_save, std::optional<JobEnd> job_end, Ask ask_again)
    : run_(run),
      start_(start),
      first_save_(first_save),
      job_end_(std::move(job_end)),
      ask_again_(std::move(ask_again)) {}

// The step that would be begun now, and the save after it.
double Deadline::needed() const {
  return steps_.high() + (saves_.empty() ? first_save_ : saves_.high());
}

Deadline::Limit Deadline::reached() {
  const double slack = steps_.high() + 0.5 * saves_.high();  // run.max_minutes has no margin of its own
  if (run_.max_minutes > 0 && wall_seconds() - start_ + needed() + slack > run_.max_minutes * 60) return Limit::minutes;
  if (!job_end_) return Limit::none;
  const double last_moment = unix_seconds() + needed() + run_.margin_minutes * 60;
  if (last_moment <= job_end_->unix_time) return Limit::none;
  const std::optional<JobEnd> now = ask_again_();
  if (!now || now->unix_time < last_moment) return Limit::job;
  job_end_ = now;
  log().info("the end of the job has been moved: " + describe());
  return Limit::none;
}

std::string Deadline::describe() const {
  std::string text;
  if (job_end_) {
    const auto end = static_cast<std::time_t>(job_end_->unix_time);
    std::array<char, 32> moment{};
    std::strftime(moment.data(), moment.size(), "%Y-%m-%d %H:%M:%S", std::localtime(&end));
    text = format("the job ends at %s (%s), in %s; margin %s", moment.data(), job_end_->source.c_str(),
                  time_text(std::max(0.0, job_end_->unix_time - unix_seconds())).c_str(),
                  time_text(run_.margin_minutes * 60).c_str());
  }
  if (run_.max_minutes > 0) {
    if (!text.empty()) text += "; ";
    text += "run.max_minutes " + time_text(run_.max_minutes * 60);
  }
  return text.empty() ? "no limit known" : text;
}

}  // namespace trireme
