#include "lab.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "catch.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

struct Shared {
  std::unique_ptr<Backend> cpu, cuda;
  std::mt19937_64 random;
};
std::unique_ptr<Shared> shared;

// ||gpu - cpu|| / ||cpu|| that an operation may reach. The CPU sums in double and rounds once; 16-bit results differ
// where a value falls on the other side of a rounding boundary, attention in 16 bits also rounds its weights.
struct Tolerance {
  const char* op;
  double f32, bf16, f16;
};
constexpr Tolerance k_tolerances[] = {
    {"elementwise", 1e-7, 1e-3, 2e-4},
    {"random", 2e-7, 1e-3, 2e-4},
    {"matmul", 2e-6, 2e-3, 3e-4},
    {"residual", 2e-6, 4e-3, 6e-4},  // the CPU rounds the product before it adds
    {"norm", 2e-6, 2e-3, 3e-4},
    {"norm_backward", 5e-6, 3e-3, 5e-4},
    {"statistics", 1e-5, 1e-5, 1e-5},
    {"activation", 2e-6, 2e-3, 4e-4},
    {"sum", 5e-6, 3e-3, 5e-4},
    {"rope", 1e-6, 1.5e-3, 2e-4},
    {"attention", 5e-6, 5e-3, 8e-4},
    {"lse", 2e-6, 2e-4, 2e-4},
    {"attention_backward", 1e-5, 8e-3, 1.5e-3},
    {"loss", 5e-6, 5e-6, 5e-6},
    {"loss_gradient", 5e-6, 3e-3, 5e-4},
    {"embedding", 1e-6, 2e-3, 3e-4},
    {"adamw", 2e-6, 1e-3, 2e-4},
    {"rounded_moment", 4e-3, 4e-3, 4e-3},
    {"fused", 2e-6, 4e-3, 6e-4},
};

double tolerance_of(const std::string& op, DType storage) {
  for (const Tolerance& t : k_tolerances)
    if (op == t.op) return storage == DType::bf16 ? t.bf16 : storage == DType::f16 ? t.f16 : t.f32;
  throw std::runtime_error("no tolerance for " + op);
}

std::vector<std::byte> bytes_of(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto put = [&](auto x) { std::memcpy(bytes.data() + i * sizeof x, &x, sizeof x); };
    switch (dtype) {
      case DType::f64:
        put(values[i]);
        break;
      case DType::f32:
        put(static_cast<float>(values[i]));
        break;
      case DType::bf16:
        put(Bf16(static_cast<float>(values[i])));
        break;
      case DType::f16:
        put(F16(static_cast<float>(values[i])));
        break;
      case DType::i64:
        put(static_cast<std::int64_t>(values[i]));
        break;
      case DType::i32:
        put(static_cast<std::int32_t>(values[i]));
        break;
      case DType::u16:
        put(static_cast<std::uint16_t>(values[i]));
        break;
      default:
        put(static_cast<std::uint8_t>(values[i]));
    }
  }
  return bytes;
}

double value_at(const std::byte* p, DType dtype) {
  const auto get = [&](auto x) {
    std::memcpy(&x, p, sizeof x);
    return x;
  };
  switch (dtype) {
    case DType::f64:
      return get(double{});
    case DType::f32:
      return get(float{});
    case DType::bf16:
      return static_cast<float>(get(Bf16{}));
    case DType::f16:
      return static_cast<float>(get(F16{}));
    case DType::i64:
      return static_cast<double>(get(std::int64_t{}));
    case DType::i32:
      return get(std::int32_t{});
    case DType::u16:
      return get(std::uint16_t{});
    default:
      return get(std::uint8_t{});
  }
}

// The memory that a pitched view spans, as one contiguous tensor of elements.
Tensor span_of(const Tensor& x) {
  const std::int64_t n = x.count() == 0 ? 0 : (x.shape.rank == 1 ? x.count() : (x.rows() - 1) * x.pitch + x.columns());
  return Tensor(x.data, x.dtype, {n});
}

}  // namespace

void Lab::start(unsigned seed) {
  shared = std::make_unique<Shared>();
  shared->cpu = make_cpu_backend(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  shared->cuda = make_cuda_backend(0, CudaOptions{});
  shared->random.seed(seed);
}
void Lab::end() {
  shared.reset();
}
Backend& Lab::cpu() {
  return *shared->cpu;
}
Backend& Lab::cuda() {
  return *shared->cuda;
}

Lab::~Lab() {
  for (const Tensor& t : on_cpu_) cpu().release(t.data);
  for (const Tensor& t : on_cuda_) cuda().release(t.data);
}

Twin Lab::fresh(DType dtype, Shape shape) {
  Twin x{Tensor(nullptr, dtype, shape), Tensor(nullptr, dtype, shape)};
  x.cpu.data = cpu().allocate(std::max<std::size_t>(x.cpu.bytes(), 1));
  on_cpu_.push_back(x.cpu);
  x.cuda.data = cuda().allocate(std::max<std::size_t>(x.cuda.bytes(), 1));
  on_cuda_.push_back(x.cuda);
  return x;
}

Twin Lab::of(DType dtype, Shape shape, const std::function<double(std::int64_t)>& value) {
  const Twin x = fresh(dtype, shape);
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<std::int64_t>(i));
  const auto bytes = bytes_of(dtype, values);
  if (bytes.empty()) return x;
  cpu().to_device(x.cpu, bytes.data());
  cuda().to_device(x.cuda, bytes.data());
  return x;
}

Twin Lab::normal(DType dtype, Shape shape, double std, double mean) {
  std::normal_distribution<double> draw(mean, std);
  return of(dtype, shape, [&](std::int64_t) { return draw(shared->random); });
}

Twin Lab::integers(DType dtype, Shape shape, std::int64_t first, std::int64_t last) {
  std::uniform_int_distribution<std::int64_t> draw(first, last);
  return of(dtype, shape, [&](std::int64_t) { return static_cast<double>(draw(shared->random)); });
}

Twin Lab::poisoned(DType dtype, Shape shape) {
  return of(dtype, shape, [](std::int64_t) { return std::numeric_limits<double>::quiet_NaN(); });
}

Twin Lab::copy_of(const Twin& x) {
  const Twin y = fresh(x.cpu.dtype, x.cpu.shape);
  cpu().copy(y.cpu, x.cpu);
  cuda().copy(y.cuda, x.cuda);
  return y;
}

std::vector<double> values_of(Backend& backend, const Tensor& x) {
  const Tensor span = span_of(x);
  std::vector<std::byte> bytes(span.bytes());
  if (!bytes.empty()) backend.to_host(bytes.data(), span);
  const std::int64_t columns = x.shape.rank == 1 ? x.count() : x.columns();
  std::vector<double> values;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t at = i / columns * (x.shape.rank == 1 ? 0 : x.pitch) + i % columns;
    values.push_back(value_at(bytes.data() + static_cast<std::size_t>(at) * size_of(x.dtype), x.dtype));
  }
  return values;
}

void agree(const std::string& op, DType storage, const Twin& x) {
  const double tolerance = tolerance_of(op, storage);
  const auto expected = values_of(Lab::cpu(), x.cpu), found = values_of(Lab::cuda(), x.cuda);
  double difference = 0, size = 0, worst = 0;
  std::int64_t bad = 0, worst_at = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isinf(expected[i]) && expected[i] == found[i]) continue;
    if (!std::isfinite(expected[i]) || !std::isfinite(found[i])) {
      if (bad++ == 0) worst_at = static_cast<std::int64_t>(i);
      continue;
    }
    const double d = std::abs(expected[i] - found[i]);
    difference += d * d;
    size += expected[i] * expected[i];
    if (bad == 0 && d > worst) worst = d, worst_at = static_cast<std::int64_t>(i);
  }
  const double norm = std::sqrt(difference), limit = tolerance * std::sqrt(size) + 1e-30;
  const double rms = std::sqrt(size / std::max<double>(1.0, static_cast<double>(expected.size())));
  INFO(op << " " << name_of(storage) << " " << to_string(x.cpu.shape) << ": relative error "
          << norm / (std::sqrt(size) + 1e-300) << ", allowed " << tolerance << "; at " << worst_at << " CPU "
          << (expected.empty() ? 0 : expected[static_cast<std::size_t>(worst_at)]) << ", GPU "
          << (found.empty() ? 0 : found[static_cast<std::size_t>(worst_at)]));
  CHECK(bad == 0);
  CHECK(norm <= limit);
  const double scale = rms + (expected.empty() ? 0 : std::abs(expected[static_cast<std::size_t>(worst_at)]));
  CHECK(worst <= 32 * tolerance * scale + 1e-30);
}

void same_poison(const Twin& x) {
  const auto expected = values_of(Lab::cpu(), x.cpu), found = values_of(Lab::cuda(), x.cuda);
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) differ += std::isnan(expected[i]) != std::isnan(found[i]);
  CHECK(differ == 0);
}

void equal(const Twin& x) {
  const auto expected = values_of(Lab::cpu(), x.cpu), found = values_of(Lab::cuda(), x.cuda);
  std::int64_t differ = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) differ += !(expected[i] == found[i]);
  INFO(to_string(x.cpu.shape) << ": " << differ << " elements differ");
  CHECK(differ == 0);
}

}  // namespace trireme
