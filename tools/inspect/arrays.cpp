#include "arrays.h"

#include <algorithm>
#include <cmath>

namespace trireme::inspect {

void for_values(CheckpointReader& file, const ArrayInfo& array,
                const std::function<void(std::int64_t, std::span<const double>)>& f) {
  constexpr std::int64_t k_at_once = 1 << 20;
  const std::int64_t n = count_of(array);
  for (std::int64_t first = 0; first < n; first += k_at_once) {
    const Range part{first, std::min(n, first + k_at_once)};
    f(first, file.read_values(array.path, part));
  }
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

double bytes_of(const ArrayInfo& array) {
  return static_cast<double>(count_of(array)) * static_cast<double>(size_of(array.dtype));
}

void Statistics::add(double x) {
  ++count;
  if (!std::isfinite(x)) {
    ++not_finite;
    return;
  }
  const bool first = count - not_finite == 1;
  min = first ? x : std::min(min, x);
  max = first ? x : std::max(max, x);
  sum += x;
  squares += x * x;
  zeros += x == 0 ? 1 : 0;
}

double Statistics::mean() const {
  return sum / static_cast<double>(std::max<std::int64_t>(1, count - not_finite));
}
double Statistics::deviation() const {
  const double n = static_cast<double>(std::max<std::int64_t>(1, count - not_finite));
  return std::sqrt(std::max(0.0, squares / n - mean() * mean()));
}
double Statistics::norm() const {
  return std::sqrt(squares);
}

}  // namespace trireme::inspect
