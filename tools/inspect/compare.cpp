#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "arrays.h"
#include "commands.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme::inspect {

namespace {

using Json = nlohmann::ordered_json;

struct Difference {
  std::string path, reason;  // reason: why the values were not compared
  double norm_a = 0, norm_b = 0, norm = 0, largest = 0;
  std::int64_t n_different = 0;
  bool equal() const { return reason.empty() && n_different == 0; }
};

// NaN against NaN is no difference; against a number it is one without bounds.
void add(Difference& d, double a, double b) {
  d.norm_a += a * a;
  d.norm_b += b * b;
  if (a == b || (std::isnan(a) && std::isnan(b))) return;
  const double difference = std::isfinite(a - b) ? std::abs(a - b) : INFINITY;
  ++d.n_different;
  d.norm += difference * difference;
  d.largest = std::max(d.largest, difference);
}

Difference compare(CheckpointReader& a, CheckpointReader& b, const ArrayInfo& array) {
  Difference d{array.path, "", 0, 0, 0, 0, 0};
  const ArrayInfo* other = b.find(array.path);
  if (other == nullptr) d.reason = "only in the first file";
  if (other != nullptr && other->shape != array.shape)
    d.reason = "the shapes are " + shape_text(array.shape) + " and " + shape_text(other->shape);
  if (!d.reason.empty()) return d;
  if (other->checksum == array.checksum && other->dtype == array.dtype) {
    for_values(a, array, [&](std::int64_t, std::span<const double> x) {
      for (const double value : x) add(d, value, value);
    });
  } else {
    for_values(a, array, [&](std::int64_t first, std::span<const double> x) {
      const std::vector<double> y = b.read_values(array.path, {first, first + std::ssize(x)});
      for (std::size_t i = 0; i < x.size(); ++i) add(d, x[i], y[i]);
    });
  }
  for (double* norm : {&d.norm_a, &d.norm_b, &d.norm}) *norm = std::sqrt(*norm);
  return d;
}

std::vector<Difference> compare_all(CheckpointReader& a, CheckpointReader& b) {
  std::vector<Difference> all;
  for (const ArrayInfo& array : a.arrays()) all.push_back(compare(a, b, array));
  for (const ArrayInfo& array : b.arrays()) {
    if (a.find(array.path) == nullptr) all.push_back({array.path, "only in the second file", 0, 0, 0, 0, 0});
  }
  return all;
}

void print_line(const Difference& d, int width) {
  if (!d.reason.empty()) {
    std::cout << format("%-*s  %s\n", width, d.path.c_str(), d.reason.c_str());
    return;
  }
  std::cout << format("%-*s  %13.6g %13.6g %13.6g %13.6g %12lld%s\n", width, d.path.c_str(), d.norm_a, d.norm_b, d.norm,
                      d.largest, static_cast<long long>(d.n_different), d.equal() ? "  equal" : "");
}

Json as_json(const Difference& d) {
  if (!d.reason.empty()) return {{"reason", d.reason}};
  return {{"norm_a", d.norm_a},
          {"norm_b", d.norm_b},
          {"norm", d.norm},
          {"largest", d.largest},
          {"n_different", d.n_different}};
}

}  // namespace

int diff(const Words& words, const Options& options) {
  CheckpointReader a(words[0]), b(words[1]);
  const std::vector<Difference> all = compare_all(a, b);
  const bool equal = std::all_of(all.begin(), all.end(), [](const Difference& d) { return d.equal(); });
  Json json = Json::object();
  int width = 5;
  for (const Difference& d : all) width = std::max(width, static_cast<int>(d.path.size()));
  if (!options.json)
    std::cout << format("%-*s  %13s %13s %13s %13s %12s\n", width, "array", "norm A", "norm B", "norm A-B", "largest",
                        "different");
  for (const Difference& d : all) {
    if (options.json)
      json[d.path] = as_json(d);
    else
      print_line(d, width);
  }
  if (options.json) std::cout << json.dump(1) << "\n";
  return equal ? 0 : 1;
}

int verify(const Words& words, const Options& options) {
  CheckpointReader file(words[0]);
  constexpr std::int64_t k_at_once = 4 << 20;
  Json json = Json::object();
  int n_damaged = 0;
  for (const ArrayInfo& array : file.arrays()) {
    std::vector<std::byte> data(static_cast<std::size_t>(std::min(k_at_once, count_of(array))) * size_of(array.dtype));
    std::uint64_t sum = 0;
    for (std::int64_t first = 0; first < count_of(array); first += k_at_once) {
      const Range part{first, std::min(count_of(array), first + k_at_once)};
      file.read(array.path, part, data.data());
      sum += checksum_share(array.dtype, data.data(), part.first, part.count());
    }
    const bool good = checksum_text(sum) == array.checksum;
    n_damaged += good ? 0 : 1;
    json[array.path] = {{"expected", array.checksum}, {"found", checksum_text(sum)}, {"good", good}};
    if (!options.json)
      std::cout << (good ? "good     " : "DAMAGED  ") << array.path << "  " << checksum_text(sum)
                << (good ? "" : ", expected " + array.checksum) << "\n";
  }
  if (options.json) std::cout << json.dump(1) << "\n";
  if (n_damaged > 0)
    throw Error(Exit::data, words[0] + ": " + std::to_string(n_damaged) +
                                " arrays are damaged; use an older checkpoint or another copy of this one");
  if (!options.json) std::cout << words[0] << ": all " << file.arrays().size() << " arrays are good\n";
  return 0;
}

}  // namespace trireme::inspect
