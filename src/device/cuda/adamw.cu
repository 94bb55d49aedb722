// AdamW over a whole slice of parameters. The dtypes of master copy, moments and gradient are looked at per access: the
// branches are the same for the whole grid and the kernel is bound by memory. See AdamWStep for the equations.

#include <cmath>

#include "kernels.cuh"

namespace trireme {

namespace {

constexpr int k_threads = 256;

enum class Master : std::uint8_t { same, separate, remainder, absent };

struct Slice {
  void *param, *master, *m, *v;
  const void* grad;
  DType param_type, m_type, v_type, grad_type;
  Master master_kind;
};

struct Scalars {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, eps, lr, weight_decay, inverse_bias1, inverse_bias2;
  double grad_scale, clip;
  RandomKey rounding;
  std::uint64_t first_index;
};

// N elements as they lie in memory: N 4-byte or N 2-byte words. Loads are issued before any of them is looked at.
template <int N>
struct Raw {
  std::uint32_t word[N];
};

template <int N>
__device__ inline Raw<N> read(const void* p, bool wide, std::int64_t i) {
  Raw<N> raw;
  if constexpr (N == 1) {
    raw.word[0] = wide ? static_cast<const std::uint32_t*>(p)[i] : static_cast<const std::uint16_t*>(p)[i];
  } else if (wide) {
    const uint4 a = *reinterpret_cast<const uint4*>(static_cast<const std::uint32_t*>(p) + i);
    raw.word[0] = a.x, raw.word[1] = a.y, raw.word[2] = a.z, raw.word[3] = a.w;
  } else {
    const uint2 a = *reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(p) + i);
    raw.word[0] = a.x & 0xffffU, raw.word[1] = a.x >> 16, raw.word[2] = a.y & 0xffffU, raw.word[3] = a.y >> 16;
  }
  return raw;
}

template <int N>
__device__ inline void write(void* p, bool wide, std::int64_t i, const Raw<N>& raw) {
  if constexpr (N == 1) {
    if (wide) {
      static_cast<std::uint32_t*>(p)[i] = raw.word[0];
    } else {
      static_cast<std::uint16_t*>(p)[i] = static_cast<std::uint16_t>(raw.word[0]);
    }
  } else if (wide) {
    *reinterpret_cast<uint4*>(static_cast<std::uint32_t*>(p) + i) =
        make_uint4(raw.word[0], raw.word[1], raw.word[2], raw.word[3]);
  } else {
    *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(p) + i) =
        make_uint2(raw.word[0] | raw.word[1] << 16, raw.word[2] | raw.word[3] << 16);
  }
}

__device__ inline float to_value(std::uint32_t bits, DType dtype) {
  if (dtype == DType::f32) return __uint_as_float(bits);
  if (dtype == DType::bf16) return __uint_as_float(bits << 16);
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ inline std::uint32_t to_bits(float x, DType dtype) {
  if (dtype == DType::f32) return __float_as_uint(x);
  if (dtype == DType::bf16) return __bfloat16_as_ushort(__float2bfloat16_rn(x));
  return __half_as_ushort(__float2half_rn(x));
}
// Adds the low 16 bits of `random` below those that stay.
__device__ inline std::uint32_t stochastic_bf16(float x, std::uint32_t random) {
  const std::uint32_t bits = __float_as_uint(x);
  const bool finite = (bits & 0x7f800000U) != 0x7f800000U;
  if (!finite) return __bfloat16_as_ushort(__float2bfloat16_rn(x));
  return (bits + (random & 0xffffU)) >> 16;
}

// The f32 that stands behind a parameter, and what is stored of its new value.
__device__ inline float full_value(std::uint32_t param, std::uint32_t master, const Slice& s) {
  if (s.master_kind == Master::separate) return __uint_as_float(master);
  if (s.master_kind == Master::remainder)
    return __uint_as_float((param << 16) + static_cast<std::uint32_t>(static_cast<std::int16_t>(master)));
  return to_value(param, s.param_type);
}
__device__ inline void split_value(float p, std::uint32_t random, const Slice& s, std::uint32_t& param,
                                   std::uint32_t& master) {
  if (s.master_kind == Master::remainder) {
    const std::uint32_t bits = __float_as_uint(p);
    param = ((bits + 0x8000U) >> 16) & 0xffffU;
    master = bits & 0xffffU;
    return;
  }
  master = __float_as_uint(p);
  const bool rounds_randomly = s.master_kind == Master::absent && s.param_type == DType::bf16;
  param = rounds_randomly ? stochastic_bf16(p, random) : to_bits(p, s.param_type);
}

// Word first % 4 and those that follow: four elements share a draw, and need a second one when they start inside a
// group.
template <int N>
__device__ inline Raw<N> draw(const RandomKey& key, std::uint64_t first) {
  Raw<N> drawn;
  if constexpr (N == 1) {
    drawn.word[0] = random_word(key, first);
  } else {
    static_assert(N == 4);
    const auto shift = static_cast<unsigned>(first % 4);
    const Philox4 low = random_words(key, first / 4), high = shift == 0 ? low : random_words(key, first / 4 + 1);
    std::uint32_t w[8] = {low.x[0], low.x[1], low.x[2], low.x[3], high.x[0], high.x[1], high.x[2], high.x[3]};
#pragma unroll
    for (int i = 0; i < 7; ++i) w[i] = (shift & 1U) != 0 ? w[i + 1] : w[i];
#pragma unroll
    for (int i = 0; i < 6; ++i) w[i] = (shift & 2U) != 0 ? w[i + 2] : w[i];
#pragma unroll
    for (int i = 0; i < N; ++i) drawn.word[i] = w[i];
  }
  return drawn;
}

template <int N>
__global__ void __launch_bounds__(k_threads, 5)
    adamw_kernel(Slice s, Scalars a, const double* norm_sq, std::int64_t first, std::int64_t accesses) {
  const double norm_squared = *norm_sq;
  if (!isfinite(norm_squared)) return;
  double factor = a.grad_scale;
  if (a.clip > 0.0) factor *= fmin(1.0, a.clip / (a.grad_scale * sqrt(norm_squared) + 1e-6));
  const auto grad_factor = static_cast<float>(factor);
  const bool m_wide = s.m_type == DType::f32, v_wide = s.v_type == DType::f32, param_wide = s.param_type == DType::f32;
  const bool has_master = s.master_kind == Master::separate || s.master_kind == Master::remainder;
  const bool draws = !m_wide || !v_wide, draws_param = s.master_kind == Master::absent && s.param_type == DType::bf16;
  RandomKey param_key = a.rounding;
  ++param_key.stream;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t access = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; access < accesses; access += stride) {
    const std::int64_t i = first + access * N;
    const Raw<N> grad = read<N>(s.grad, s.grad_type == DType::f32, i);
    Raw<N> m = read<N>(s.m, m_wide, i), v = read<N>(s.v, v_wide, i), param = read<N>(s.param, param_wide, i), master{};
    if (has_master) master = read<N>(s.master, s.master_kind == Master::separate, i);
    const std::uint64_t index = a.first_index + static_cast<std::uint64_t>(i);
    Raw<N> random{}, param_random{};
    if (draws) random = draw<N>(a.rounding, index);
    if (draws_param) param_random = draw<N>(param_key, index);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float g = to_value(grad.word[j], s.grad_type) * grad_factor;
      const float new_m = a.beta1 * to_value(m.word[j], s.m_type) + a.one_minus_beta1 * g;
      const float new_v = a.beta2 * to_value(v.word[j], s.v_type) + a.one_minus_beta2 * g * g;
      const float p = full_value(param.word[j], master.word[j], s);
      const float step = new_m * a.inverse_bias1 / (sqrtf(new_v * a.inverse_bias2) + a.eps) + a.weight_decay * p;
      split_value(p - a.lr * step, param_random.word[j], s, param.word[j], master.word[j]);
      m.word[j] = m_wide ? __float_as_uint(new_m) : stochastic_bf16(new_m, random.word[j]);
      v.word[j] = v_wide ? __float_as_uint(new_v) : stochastic_bf16(new_v, random.word[j] >> 16);
    }
    write<N>(s.m, m_wide, i, m);
    write<N>(s.v, v_wide, i, v);
    write<N>(s.param, param_wide, i, param);
    if (has_master) write<N>(s.master, s.master_kind == Master::separate, i, master);
  }
}

Master master_kind_of(const AdamWTensors& t) {
  if (!t.master) return Master::absent;
  if (t.master.data == t.param.data) return Master::same;
  if (t.master.dtype == DType::u16) {
    require(t.param.dtype == DType::bf16, "a 16-bit master needs bf16 parameters");
    return Master::remainder;
  }
  require(t.master.dtype == DType::f32, "CUDA keeps master parameters as f32 or as the rest of bf16");
  return Master::separate;
}

void check_types(const AdamWTensors& t) {
  const auto stored = [](DType d) { return d == DType::f32 || d == DType::bf16 || d == DType::f16; };
  if (!stored(t.param.dtype)) refuse("adamw()", t.param.dtype);
  if (!stored(t.grad.dtype)) refuse("adamw() gradients", t.grad.dtype);
  for (const DType d : {t.m.dtype, t.v.dtype})
    if (d != DType::f32 && d != DType::bf16) refuse("adamw() moments", d);
  for (const Tensor& x : {t.param, t.m, t.v, t.grad, t.master})
    require(!x || (x.contiguous() && x.count() == t.param.count()), "adamw() needs contiguous tensors of one length");
}

Scalars scalars_of(const AdamWStep& step) {
  const auto t = static_cast<double>(step.t);
  Scalars a{};
  a.beta1 = static_cast<float>(step.beta1);
  a.one_minus_beta1 = static_cast<float>(1.0 - step.beta1);
  a.beta2 = static_cast<float>(step.beta2);
  a.one_minus_beta2 = static_cast<float>(1.0 - step.beta2);
  a.eps = static_cast<float>(step.eps);
  a.lr = static_cast<float>(step.lr);
  a.weight_decay = static_cast<float>(step.weight_decay);
  a.inverse_bias1 = static_cast<float>(1.0 / (1.0 - std::pow(step.beta1, t)));
  a.inverse_bias2 = static_cast<float>(1.0 / (1.0 - std::pow(step.beta2, t)));
  a.grad_scale = step.grad_scale;
  a.clip = step.clip;
  a.rounding = step.rounding;
  a.first_index = static_cast<std::uint64_t>(step.first_index);
  return a;
}

// Elements before the first that starts a four-element access in every tensor; -1 when there is none.
std::int64_t head_of(const AdamWTensors& t) {
  for (std::int64_t head = 0; head < 4; ++head) {
    bool all = true;
    for (const Tensor& x : {t.param, t.m, t.v, t.grad, t.master}) {
      const std::size_t size = x ? size_of(x.dtype) : 1;
      all =
          all &&
          (!x || (reinterpret_cast<std::uintptr_t>(x.data) + static_cast<std::size_t>(head) * size) % (4 * size) == 0);
    }
    if (all) return head;
  }
  return -1;
}

}  // namespace

void CudaBackend::adamw(const AdamWTensors& t, const AdamWStep& step, Tensor norm_sq_1) {
  check_types(t);
  const std::int64_t n = t.param.count();
  if (n == 0) return;
  const Slice slice{t.param.data,  t.master.data, t.m.data,  t.v.data,     t.grad.data,
                    t.param.dtype, t.m.dtype,     t.v.dtype, t.grad.dtype, master_kind_of(t)};
  const Scalars scalars = scalars_of(step);
  const double* const norm_sq = norm_sq_1.ptr<double>();
  const auto scalar_part = [&](std::int64_t first, std::int64_t count) {
    if (count == 0) return;
    const int grid = blocks_for(count, k_threads, std::int64_t{n_multiprocessors_} * 16);
    adamw_kernel<1><<<grid, k_threads, 0, stream_>>>(slice, scalars, norm_sq, first, count);
    check_launch();
  };
  const std::int64_t head = head_of(t);
  if (head < 0 || n < head + 4) return scalar_part(0, n);
  const std::int64_t accesses = (n - head) / 4, done = head + accesses * 4;
  scalar_part(0, head);
  const int grid = blocks_for(accesses, k_threads, std::int64_t{n_multiprocessors_} * 32);
  adamw_kernel<4><<<grid, k_threads, 0, stream_>>>(slice, scalars, norm_sq, head, accesses);
  check_launch();
  scalar_part(done, n - done);
}

}  // namespace trireme
