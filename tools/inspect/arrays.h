#pragma once
// Walks over the elements of arrays in bounded memory, and texts that several commands print.

#include <functional>
#include <span>
#include <string>

#include "trireme/io/reader.h"

namespace trireme::inspect {

// Calls f(first index, values) for consecutive parts of the array.
void for_values(CheckpointReader& file, const ArrayInfo& array,
                const std::function<void(std::int64_t, std::span<const double>)>& f);

std::string shape_text(const std::vector<std::int64_t>& shape);  // "[4, 256, 256]"
double bytes_of(const ArrayInfo& array);

struct Statistics {
  double min = 0, max = 0, sum = 0, squares = 0;
  std::int64_t count = 0, zeros = 0, not_finite = 0;  // min .. squares are those of the finite values
  double mean() const;
  double deviation() const;
  double norm() const;
  void add(double x);
};

}  // namespace trireme::inspect
