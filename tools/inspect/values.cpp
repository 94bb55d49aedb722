#include <algorithm>
#include <charconv>
#include <iostream>
#include <nlohmann/json.hpp>

#include "arrays.h"
#include "commands.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme::inspect {

namespace {

using Json = nlohmann::ordered_json;

const ArrayInfo& found(const CheckpointReader& file, const std::string& file_name, const std::string& array) {
  const ArrayInfo* info = file.find(array.starts_with("/") ? array : "/" + array);
  if (info != nullptr) return *info;
  throw Error(Exit::usage, file_name + " has no array \"" + array + "\"; inspect list " + file_name + " shows them");
}

Statistics statistics_of(CheckpointReader& file, const ArrayInfo& array) {
  Statistics statistics;
  for_values(file, array, [&](std::int64_t, std::span<const double> values) {
    for (const double x : values) statistics.add(x);
  });
  return statistics;
}

// "3,0" to {3, 0}.
std::vector<std::int64_t> index_from(const std::string& text) {
  std::vector<std::int64_t> index;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at) {
    std::int64_t value = -1;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || value < 0 || (next != end && *next != ','))
      throw Error(Exit::usage, "\"" + text + "\" is no index: expected numbers with commas between, such as 3,0");
    index.push_back(value);
    at = next;
  }
  return index;
}

// The elements below leading indices.
Range part_of(const ArrayInfo& array, const std::vector<std::int64_t>& index) {
  if (index.size() > array.shape.size())
    throw Error(Exit::usage, array.path + " has the shape " + shape_text(array.shape) + ": that are too many indices");
  std::int64_t first = 0, count = count_of(array);
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (index[d] >= array.shape[d])
      throw Error(Exit::usage, array.path + " has the shape " + shape_text(array.shape) + ": index " +
                                   std::to_string(index[d]) + " is outside");
    count /= array.shape[d];
    first += index[d] * count;
  }
  return {first, first + count};
}

}  // namespace

int stats(const Words& words, const Options& options) {
  CheckpointReader file(words[0]);
  std::vector<ArrayInfo> arrays(file.arrays());
  if (words.size() > 1) arrays.clear();
  for (std::size_t i = 1; i < words.size(); ++i) arrays.push_back(found(file, words[0], words[i]));
  std::size_t width = 5;
  for (const ArrayInfo& array : arrays) width = std::max(width, array.path.size());
  Json all = Json::object();
  if (!options.json)
    std::cout << format("%-*s %13s %13s %13s %13s %13s %12s %10s\n", static_cast<int>(width), "array", "min", "max",
                        "mean", "deviation", "norm", "zeros", "not finite");
  for (const ArrayInfo& array : arrays) {
    const Statistics s = statistics_of(file, array);
    if (!options.json)
      std::cout << format("%-*s %13.6g %13.6g %13.6g %13.6g %13.6g %12lld %10lld\n", static_cast<int>(width),
                          array.path.c_str(), s.min, s.max, s.mean(), s.deviation(), s.norm(),
                          static_cast<long long>(s.zeros), static_cast<long long>(s.not_finite));
    all[array.path] = {
        {"min", s.min},     {"max", s.max},     {"mean", s.mean()},          {"deviation", s.deviation()},
        {"norm", s.norm()}, {"zeros", s.zeros}, {"not_finite", s.not_finite}};
  }
  if (options.json) std::cout << all.dump(1) << "\n";
  return 0;
}

int print(const Words& words, const Options& options) {
  CheckpointReader file(words[0]);
  const ArrayInfo& array = found(file, words[0], words[1]);
  Range part = part_of(array, words.size() > 2 ? index_from(words[2]) : std::vector<std::int64_t>{});
  const std::int64_t all = part.count();
  part.last = std::min(part.last, part.first + std::max<std::int64_t>(0, options.count));
  const std::vector<double> values = file.read_values(array.path, part);
  if (options.json) {
    std::cout << Json{{"path", array.path}, {"first", part.first}, {"values", values}}.dump() << "\n";
    return 0;
  }
  std::cout << array.path << " " << shape_text(array.shape) << " " << name_of(array.dtype) << ", " << values.size()
            << " of " << all << " values from element " << part.first << " on\n";
  for (std::size_t i = 0; i < values.size(); ++i)
    std::cout << format("%13.9g%s", values[i], i % 8 == 7 || i + 1 == values.size() ? "\n" : " ");
  return 0;
}

}  // namespace trireme::inspect
