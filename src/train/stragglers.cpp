#include "trireme/train/stragglers.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr std::size_t k_compared = 10, k_guilty = 8;
constexpr double k_clearly = 1.25;  // over the median
constexpr std::size_t k_host_bytes = 64;

template <class T>
std::vector<T> gathered(Communicator& control, DType dtype, const T* mine, std::size_t n) {
  std::vector<T> all(n * static_cast<std::size_t>(control.size()));
  const auto count = static_cast<std::int64_t>(n);
  const Tensor part(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(mine)), dtype, {count});
  control.all_gather(Tensor(reinterpret_cast<std::byte*>(all.data()), dtype, {count * control.size()}), part);
  return all;
}

}  // namespace

BusyTimes busy_times(std::vector<double> seconds) {
  BusyTimes times;
  times.slowest = static_cast<int>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
  std::sort(seconds.begin(), seconds.end());
  times.min = seconds.front(), times.max = seconds.back();
  times.median = seconds[(seconds.size() - 1) / 2];
  return times;
}

std::optional<int> Suspicion::judge(const BusyTimes& times) {
  last_.push_back(times.max > k_clearly * times.median ? times.slowest : -1);
  if (last_.size() > k_compared) last_.erase(last_.begin());
  const auto n = static_cast<std::size_t>(std::count(last_.begin(), last_.end(), times.slowest));
  if (n < k_guilty || named_ == times.slowest) return std::nullopt;
  named_ = times.slowest;
  return named_;
}

Stragglers::Stragglers(Communicator& control, const std::string& host) : control_(control) {
  std::array<char, k_host_bytes> mine{};
  std::snprintf(mine.data(), mine.size(), "%s", host.c_str());
  const std::vector<char> all = gathered(control, DType::u8, mine.data(), mine.size());
  for (std::size_t i = 0; i < all.size(); i += k_host_bytes) hosts_.emplace_back(all.data() + i);
}

void Stragglers::add(double busy_seconds) {
  sum_ += busy_seconds;
  ++n_;
}

BusyTimes Stragglers::compare() {
  const double mine = sum_ / std::max(1, n_);
  sum_ = n_ = 0;
  return busy_times(gathered(control_, DType::f64, &mine, 1));
}

std::optional<std::string> Stragglers::suspect(const BusyTimes& times) {
  const std::optional<int> rank = suspicion_.judge(times);
  if (!rank) return std::nullopt;
  return format(
      "rank %d on %s computes %.2f times as long as the median rank (%.4f s per step), again and again: look at "
      "its node",
      *rank, hosts_[static_cast<std::size_t>(*rank)].c_str(), times.max / times.median, times.max);
}

}  // namespace trireme
