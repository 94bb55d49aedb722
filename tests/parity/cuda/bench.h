#pragma once
// Timing of operations on the GPU: random tensors in one arena, medians over rotating sets of inputs, rates beside
// floors.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "../../../src/device/cuda/check.h"
#include "../../../src/device/cuda/cuda_backend.h"
#include "trireme/device/arena.h"

namespace trireme {

inline constexpr int k_sets = 3, k_warm = 3, k_repeats = 21;

class Bench {
 public:
  explicit Bench(CudaBackend& backend) : b(backend), arena(backend, "bench", std::size_t{24} << 30) {
    for (cudaEvent_t& e : events_) check(cudaEventCreate(&e));
  }

  Tensor normal(DType dtype, Shape shape, double std) {
    const Tensor x = arena.take(dtype, shape);
    b.fill_normal(shape.rank == 1 ? x.as({1, shape[0]}) : x, NormalFill{{++seed_, 1, 1}, 0, 0, 1 << 20, std});
    return x;
  }
  Tensor zeros(DType dtype, Shape shape) {
    const Tensor x = arena.take(dtype, shape);
    b.fill(x, 0.0);
    return x;
  }
  Tensor integers(DType dtype, std::int64_t n, std::int64_t limit) {
    const Tensor x = arena.take(dtype, {n});
    std::vector<std::byte> bytes(x.bytes());
    for (std::int64_t i = 0; i < n; ++i) {
      // ids as in text: small ones are common
      const double u =
          static_cast<double>((static_cast<std::uint64_t>(i) * 2654435761U + ++seed_) % 1000003) / 1000003.0;
      const auto id = static_cast<std::int64_t>(static_cast<double>(limit) * u * u * u);
      if (dtype == DType::i32) reinterpret_cast<std::int32_t*>(bytes.data())[i] = static_cast<std::int32_t>(id);
      if (dtype == DType::i64) reinterpret_cast<std::int64_t*>(bytes.data())[i] = id;
    }
    b.to_device(x, bytes.data());
    return x;
  }

  double median_ms(const std::function<void(int)>& f) {
    for (int i = 0; i < k_warm; ++i) f(i % k_sets);
    std::vector<float> times;
    for (int i = 0; i < k_repeats; ++i) {
      if (before_each) before_each();
      check(cudaEventRecord(events_[0], b.stream()));
      f(i % k_sets);
      check(cudaEventRecord(events_[1], b.stream()));
      check(cudaEventSynchronize(events_[1]));
      float ms = 0;
      check(cudaEventElapsedTime(&ms, events_[0], events_[1]));
      times.push_back(ms);
    }
    std::nth_element(times.begin(), times.begin() + k_repeats / 2, times.end());
    return times[k_repeats / 2];
  }

  void bytes(const std::string& name, double bytes, const std::function<void(int)>& f) {
    const double ms = median_ms(f), floor = bytes / copy_rate / 1e6;
    std::printf("%-34s %8.3f ms  %6.0f GB/s      floor %7.3f  x%.2f\n", name.c_str(), ms, bytes / ms / 1e6, floor,
                ms / floor);
    std::fflush(stdout);
  }
  void flops(const std::string& name, double flops, const std::function<void(int)>& f) {
    const double ms = median_ms(f), floor = flops / gemm_rate / 1e9;
    std::printf("%-34s %8.3f ms  %6.0f TFLOP/s   floor %7.3f  x%.2f\n", name.c_str(), ms, flops / ms / 1e9, floor,
                ms / floor);
    std::fflush(stdout);
  }

  CudaBackend& b;
  Arena arena;
  std::function<void()> before_each;         // work that is not timed: keeps the clock where training has it
  double copy_rate = 4260, gemm_rate = 780;  // GB/s, TFLOP/s; replaced by what is measured first

 private:
  cudaEvent_t events_[2]{};
  std::uint64_t seed_ = 0;
};

using Set = std::vector<Tensor>;

inline Set three(Bench& bench, DType dtype, Shape shape, double std) {
  Set set;
  for (int i = 0; i < k_sets; ++i) set.push_back(bench.normal(dtype, shape, std));
  return set;
}

}  // namespace trireme
