#pragma once
// A backend with tensors made from numbers and read back as numbers, for tests. Outputs start as NaN, so that an
// element nobody wrote is seen.

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "catch.h"
#include "trireme/device/arena.h"
#include "trireme/device/backend.h"

namespace trireme {

using Numbers = std::vector<double>;

class Bench {
 public:
  explicit Bench(DType dtype) : Bench(dtype, 1) {}
  Bench(DType dtype, int n_threads)
      : dtype_(dtype), backend_(make_cpu_backend(n_threads)), arena_(*backend_, "bench", std::size_t{64} << 20) {}

  Backend& backend() { return *backend_; }
  Backend* operator->() { return backend_.get(); }
  DType dtype() const { return dtype_; }
  DType acc() const { return accumulator_of(dtype_); }

  Tensor of(DType dtype, Shape shape, const Numbers& numbers) {
    Tensor t = arena_.take(dtype, shape);
    write(t, numbers);
    return t;
  }
  Tensor of(Shape shape, const Numbers& numbers) { return of(dtype_, shape, numbers); }
  Tensor nan(DType dtype, Shape shape) {
    Tensor t = arena_.take(dtype, shape);
    backend_->fill(t, std::numeric_limits<double>::quiet_NaN());
    return t;
  }
  Tensor nan(Shape shape) { return nan(dtype_, shape); }
  Tensor zeros(DType dtype, Shape shape) { return of(dtype, shape, Numbers(static_cast<std::size_t>(shape.count()))); }

  // Normal numbers; every call draws others.
  Tensor random(DType dtype, Shape shape) {
    Tensor t = arena_.take(dtype, shape);
    NormalFill fill;
    fill.key = {1234, ++stream_, 0};
    fill.global_columns = t.count();
    backend_->fill_normal(t.as({1, t.count()}), fill);
    return t;
  }
  Tensor random(Shape shape) { return random(dtype_, shape); }

  template <class Int>
  Tensor integers(DType dtype, const std::vector<Int>& values) {
    Tensor t = arena_.take(dtype, {static_cast<std::int64_t>(values.size())});
    backend_->to_device(t, values.data());
    return t;
  }
  Tensor ids(const std::vector<std::int32_t>& values) { return integers(DType::i32, values); }
  Tensor rows(const std::vector<std::int64_t>& values) { return integers(DType::i64, values); }

  void write(Tensor t, const Numbers& numbers) {
    REQUIRE(static_cast<std::int64_t>(numbers.size()) == t.count());
    Tensor wide(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(numbers.data())), DType::f64, t.shape);
    backend_->copy(t, wide);
  }
  Numbers read(Tensor t) {
    Numbers numbers(static_cast<std::size_t>(t.count()));
    Tensor wide(reinterpret_cast<std::byte*>(numbers.data()), DType::f64, t.shape);
    backend_->copy(wide, t);
    return numbers;
  }

 private:
  DType dtype_;
  std::unique_ptr<Backend> backend_;
  Arena arena_;
  std::uint32_t stream_ = 0;
};

// Largest difference relative to the largest expected number; infinite when a number is missing or NaN.
inline double difference(const Numbers& found, const Numbers& expected) {
  if (found.size() != expected.size()) return std::numeric_limits<double>::infinity();
  double largest = 1e-300, worst = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double d = std::abs(found[i] - expected[i]);
    if (!(d <= worst)) worst = d == d ? d : std::numeric_limits<double>::infinity();
  }
  return worst / largest;
}

// What one rounding to the storage type costs, relative to the largest number.
inline double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 1e-13;
    case DType::f32:
      return 2e-6;
    case DType::f16:
      return 1e-3;
    default:
      return 8e-3;
  }
}

// A dtype per section: GENERATE for the four compute types.
inline DType every_compute_type() {
  return GENERATE(DType::f64, DType::f32, DType::bf16, DType::f16);
}

}  // namespace trireme
