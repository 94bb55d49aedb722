#pragma once
// Twin tensors on the CPU and on the GPU: made with the same bits, worked on by both backends, compared afterwards.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/device/backend.h"

namespace trireme {

inline constexpr int k_skipped = 77;

// The same tensor on both sides.
struct Twin {
  Tensor cpu, cuda;
  Twin columns(std::int64_t first, std::int64_t count) const {
    return {cpu.slice_columns(first, count), cuda.slice_columns(first, count)};
  }
  Twin rows(std::int64_t first, std::int64_t count) const {
    return {cpu.slice_rows(first, count), cuda.slice_rows(first, count)};
  }
  Twin flat() const { return {cpu.flat(), cuda.flat()}; }
};

// One test's memory. Backends are shared by all tests.
class Lab {
 public:
  static void start(unsigned seed);
  static void end();
  static Backend& cpu();
  static Backend& cuda();

  Lab() = default;
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  Twin normal(DType dtype, Shape shape, double std = 1.0, double mean = 0.0);
  Twin integers(DType dtype, Shape shape, std::int64_t first, std::int64_t last);  // first..last
  Twin poisoned(DType dtype, Shape shape);                                         // NaN
  Twin of(DType dtype, Shape shape, const std::function<double(std::int64_t)>& value);
  Twin copy_of(const Twin& x);

 private:
  Twin fresh(DType dtype, Shape shape);
  std::vector<Tensor> on_cpu_, on_cuda_;
};

// Values of the GPU agree with the CPU's to the tolerance of `op` for `storage` (the table in lab.cpp), and no value is
// NaN.
void agree(const std::string& op, DType storage, const Twin& x);
// Elements that neither side wrote are still poisoned on both.
void same_poison(const Twin& x);
// Bit for bit.
void equal(const Twin& x);

std::vector<double> values_of(Backend& backend, const Tensor& x);
inline const DType k_storage[] = {DType::f32, DType::bf16, DType::f16};

}  // namespace trireme
