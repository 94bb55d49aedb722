#pragma once
// What one deck key may hold. A section describes itself once, `v.field(name, value, doc, limit)`, and every reader
// (parser, checker, printer, reference) is a visitor of that list. The default is the value of a fresh struct.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace trireme {

template <class T>
struct Limit {
  std::function<bool(const T&)> holds;  // empty: anything goes
  std::string text;                     // "at least 1", "one of \"fp32\", \"bf16\""
  std::vector<std::string> choices;     // for one_of: offered when a value is misspelt
};

template <class T>
Limit<T> any();
template <class T>
Limit<T> at_least(T low);
template <class T>
Limit<T> between(T low, T high);  // inclusive
// Sizes reach 2^31 - 1 and axes of the grid 10^6, so that the products of a deck never overflow.
Limit<std::int64_t> size_from(std::int64_t low);
Limit<std::int64_t> ranks_from(std::int64_t low);
Limit<double> above(double low);
Limit<std::string> one_of(std::initializer_list<const char*> choices);
Limit<std::string> not_empty();

}  // namespace trireme
