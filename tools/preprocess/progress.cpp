#include "progress.h"

#include <algorithm>

#include "trireme/base/log.h"

using trireme::count_text;
using trireme::format;

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::show(std::int64_t read, std::int64_t text, std::int64_t tokens) {
  const double now = seconds();
  if (now - shown_ < 0.2) return;
  shown_ = now;
  std::string line;
  if (n_bytes_ > 0) {
    constexpr std::size_t k_width = 30;
    const double part = std::min(1.0, static_cast<double>(read) / static_cast<double>(n_bytes_));
    const auto filled = static_cast<std::size_t>(part * k_width);
    line += '[';
    line.append(filled, '=').append(k_width - filled, ' ');
    line += format("] %3.0f %%  ", 100 * part);
    if (part > 0.01) line += trireme::time_text(now / part - now) + " left  ";
  }
  line += format("%.1f MB/s  ", static_cast<double>(text) / 1e6 / now);
  if (tokens > 0) line += count_text(static_cast<double>(tokens) / now) + " tokens/s";
  trireme::log().progress(line);
}

void Problems::add(const std::vector<Problem>& more) {
  constexpr std::int64_t k_named = 10;
  for (const Problem& problem : more) {
    if (++count_ <= k_named)
      trireme::log().warn(problem.file + ":" + std::to_string(problem.line) + ": skipped: " + problem.what);
    if (count_ == k_named) trireme::log().warn("further malformed lines are counted and not shown");
  }
}
