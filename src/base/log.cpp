#include "trireme/base/log.h"

#include <unistd.h>

#include <cmath>
#include <cstdarg>
#include <set>
#include <string>
#include <vector>

#include "trireme/base/check.h"

namespace trireme {

namespace {

// mpirun gives its ranks a pseudo-terminal whatever its own output is: only when the parent also writes to a terminal
// does a person look at this one.
bool seen_by_a_person() {
  if (isatty(STDOUT_FILENO) == 0) return false;
  char target[64] = {};
  const std::string link = "/proc/" + std::to_string(getppid()) + "/fd/1";
  return readlink(link.c_str(), target, sizeof(target) - 1) > 0 && std::string(target).starts_with("/dev/") &&
         std::string(target) != "/dev/null";
}

}  // namespace

void Log::open(bool speaks, LogLevel level, const std::string& file) {
  close();
  speaks_ = speaks;
  level_ = level;
  terminal_ = seen_by_a_person();
  if (!speaks || file.empty()) return;
  file_ = std::fopen(file.c_str(), "a");
  if (file_ == nullptr)
    throw Error(Exit::data, "cannot write the log file " + file + ": check run.output and its permissions");
}

void Log::close() {
  if (file_ != nullptr) std::fclose(file_);
  file_ = nullptr;
}

void Log::line(LogLevel level, const std::string& text) {
  if (!speaks(level)) return;
  std::fprintf(stdout, "%s%s\n", live_ ? "\r\033[K" : "", text.c_str());
  std::fflush(stdout);
  live_ = false;
  if (file_ == nullptr) return;
  std::fprintf(file_, "%s\n", text.c_str());
  std::fflush(file_);
}

void Log::warn(const std::string& text) {
  static std::set<std::string> seen;  // part of the log, the one global
  if (seen.insert(text).second) line(LogLevel::warning, "warning: " + text);
}

void Log::progress(const std::string& text) {
  if (!terminal_ || !speaks(LogLevel::info)) return;
  std::fprintf(stdout, "\r\033[K%s", text.c_str());
  std::fflush(stdout);
  live_ = true;
}

Log& log() {
  static Log the_log;
  return the_log;
}

std::string format(const char* pattern, ...) {
  std::va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(static_cast<std::size_t>(length > 0 ? length : 0), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  for (; std::abs(bytes) >= 1024 && unit < 5; ++unit) bytes /= 1024;
  return format(unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
}

std::string count_text(double count) {
  const char* units[] = {"", " k", " M", " G", " T", " P", " E"};
  int unit = 0;
  for (; std::abs(count) >= 1000 && unit < 6; ++unit) count /= 1000;
  return format(unit == 0 ? "%.0f%s" : "%.1f%s", count, units[unit]);
}

std::string time_text(double seconds) {
  if (seconds < 60) return format("%.1f s", seconds);
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 3600) return format("%lld min %02lld s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return format("%lld h %02lld min", whole / 3600, whole / 60 % 60);
  return format("%lld d %02lld h", whole / 86400, whole / 3600 % 24);
}

}  // namespace trireme
