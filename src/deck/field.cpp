#include "trireme/deck/field.h"

#include <algorithm>
#include <limits>

#include "print.h"

namespace trireme {

template <class T>
Limit<T> any() {
  return {};
}

template <class T>
Limit<T> at_least(T low) {
  return {[low](const T& value) { return value >= low; }, "at least " + text_of(low), {}};
}

template <class T>
Limit<T> between(T low, T high) {
  const std::string text = low == high ? "only " + text_of(low) : text_of(low) + " to " + text_of(high);
  return {[low, high](const T& value) { return value >= low && value <= high; }, text, {}};
}

Limit<std::int64_t> size_from(std::int64_t low) {
  Limit<std::int64_t> limit = between(low, std::int64_t{std::numeric_limits<std::int32_t>::max()});
  limit.text = text_of(low) + " to 2^31 - 1";
  return limit;
}

Limit<std::int64_t> ranks_from(std::int64_t low) {
  return between(low, std::int64_t{1000000});
}

Limit<double> above(double low) {
  return {[low](double value) { return value > low; }, "above " + text_of(low), {}};
}

Limit<std::string> one_of(std::initializer_list<const char*> choices) {
  Limit<std::string> limit;
  limit.choices.assign(choices.begin(), choices.end());
  for (const std::string& choice : limit.choices)
    limit.text += (limit.text.empty() ? "one of " : ", ") + text_of(choice);
  limit.holds = [known = limit.choices](const std::string& value) {
    return std::find(known.begin(), known.end(), value) != known.end();
  };
  return limit;
}

Limit<std::string> not_empty() {
  return {[](const std::string& value) { return !value.empty(); }, "not empty", {}};
}

template Limit<bool> any();
template Limit<std::string> any();
template Limit<std::vector<std::int64_t>> any();
template Limit<std::vector<double>> any();
template Limit<std::vector<std::string>> any();
template Limit<std::int64_t> at_least(std::int64_t);
template Limit<double> at_least(double);
template Limit<std::int64_t> between(std::int64_t, std::int64_t);
template Limit<double> between(double, double);

}  // namespace trireme
