// FP8 rows straight from what makes them: norms, activations and their derivatives. Each value is rounded to bf16
// before it is quantised, as if it had gone through memory, so that fused and separate operations give the same bytes.

#include "activation.cuh"
#include "fp8.cuh"

namespace trireme {

namespace {

// Longer rows take the separate operations: they would not fit into registers.
constexpr int k_fused_packs = 4, k_fused_threads = 512;

__device__ inline void widen(float (&v)[8], const uint4& eight) {
  const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = __uint_as_float(words[i] << 16);
    v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
}

__device__ inline uint4 narrowed(const float (&v)[8]) {
  const Pack<bf16, 8> pack = packed<bf16>(v);
  return *reinterpret_cast<const uint4*>(&pack);
}

template <int Packs>
__device__ inline void load_row(uint4 (&held)[Packs], const bf16* row, int n_packs) {
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    held[i] = at < n_packs ? reinterpret_cast<const uint4*>(row)[at] : uint4{0, 0, 0, 0};
  }
}

template <__nv_fp8_interpretation_t Format, int Packs>
__device__ inline void store_row(std::uint8_t* row, const uint4 (&held)[Packs], float inverse, int n_packs) {
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at < n_packs) reinterpret_cast<uint2*>(row)[at] = quantized<Format>(held[i], inverse);
  }
}

struct NormRow {
  std::uint8_t* q;
  float *scale, *mean, *rstd;
  const bf16 *x, *gain, *bias;
  int n_packs;
  float eps;
  bool layer;
};

template <__nv_fp8_interpretation_t Format, int Packs>
__global__ void __launch_bounds__(k_fused_threads) norm_kernel(NormRow a) {
  __shared__ float sums[2][32];
  __shared__ unsigned shared[32];
  const std::int64_t row = blockIdx.x, columns = std::int64_t{a.n_packs} * 8;
  uint4 held[Packs];
  load_row(held, a.x + row * columns, a.n_packs);
  float sum = 0, squares = 0, v[8];
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    widen(v, held[i]);
#pragma unroll
    for (int j = 0; j < 8; ++j) sum += v[j];
  }
  const float n = static_cast<float>(columns);
  const float mean = a.layer ? block_sum(sum, sums[0]) / n : 0.0F;
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    widen(v, held[i]);
    const bool inside = static_cast<int>(threadIdx.x + i * blockDim.x) < a.n_packs;
#pragma unroll
    for (int j = 0; j < 8; ++j) squares += inside ? (v[j] - mean) * (v[j] - mean) : 0.0F;
  }
  const float rstd = rsqrtf(block_sum(squares, sums[1]) / n + a.eps);
  if (threadIdx.x == 0) {
    if (a.layer) a.mean[row] = mean;
    a.rstd[row] = rstd;
  }
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at >= a.n_packs) continue;
    float gain[8], bias[8];
    widen(v, held[i]);
    load<bf16, 8>(gain, a.gain + at * 8);
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = (v[j] - mean) * rstd * gain[j];
    if (a.bias != nullptr) {
      load<bf16, 8>(bias, a.bias + at * 8);
#pragma unroll
      for (int j = 0; j < 8; ++j) v[j] += bias[j];
    }
    held[i] = narrowed(v);
  }
  const float inverse = row_scale<Format, Packs>(held, a.scale + row, shared);
  store_row<Format, Packs>(a.q + row * columns, held, inverse, a.n_packs);
}

template <__nv_fp8_interpretation_t Format, int Packs>
__global__ void __launch_bounds__(k_fused_threads)
    activation_rows_kernel(std::uint8_t* q, float* scale, const bf16* x, int n_packs, Activation kind) {
  __shared__ unsigned shared[32];
  const std::int64_t row = blockIdx.x, columns = std::int64_t{n_packs} * 8;
  uint4 held[Packs];
  if (kind == Activation::swiglu) {
    uint4 gates[Packs];
    load_row(gates, x + 2 * row * columns, n_packs);
    load_row(held, x + (2 * row + 1) * columns, n_packs);
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
      float gate[8], up[8];
      widen(gate, gates[i]);
      widen(up, held[i]);
#pragma unroll
      for (int j = 0; j < 8; ++j) up[j] *= gate[j] * sigmoid<false>(gate[j]);
      held[i] = narrowed(up);
    }
  } else {
    load_row(held, x + row * columns, n_packs);
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
      float v[8];
      widen(v, held[i]);
      activate_pack<bf16, 8>(v, kind);
      held[i] = narrowed(v);
    }
  }
  const float inverse = row_scale<Format, Packs>(held, scale + row, shared);
  store_row<Format, Packs>(q + row * columns, held, inverse, n_packs);
}

// A block takes a run of rows and a thread the same columns of each, so that it can sum them for the bias.
template <__nv_fp8_interpretation_t Format, int Packs>
__global__ void __launch_bounds__(k_fused_threads)
    derivative_rows_kernel(std::uint8_t* q, float* scale, const bf16* dy, const bf16* x, std::int64_t rows, int n_packs,
                           Activation kind, float* partial) {
  __shared__ unsigned shared[2][32];
  const std::int64_t columns = std::int64_t{n_packs} * 8;
  const std::int64_t first = rows * blockIdx.x / gridDim.x, last = rows * (blockIdx.x + 1) / gridDim.x;
  float sums[Packs][8] = {};
  for (std::int64_t row = first; row < last; ++row) {
    uint4 held[Packs], before[Packs];
    load_row(held, dy + row * columns, n_packs);
    load_row(before, x + row * columns, n_packs);
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
      float d[8], v[8], dx[8];
      widen(d, held[i]);
      widen(v, before[i]);
      derive_pack<bf16, 8>(dx, d, v, kind);
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[i][j] += dx[j];
      held[i] = narrowed(dx);
    }
    const float inverse = row_scale<Format, Packs>(held, scale + row, shared[row % 2]);
    store_row<Format, Packs>(q + row * columns, held, inverse, n_packs);
  }
  if (partial == nullptr) return;
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at >= n_packs) continue;
#pragma unroll
    for (int j = 0; j < 8; ++j) partial[blockIdx.x * columns + at * 8 + j] = sums[i][j];
  }
}

// dx has the columns of gate and up.
template <__nv_fp8_interpretation_t Format, int Packs>
__global__ void __launch_bounds__(k_fused_threads)
    swiglu_derivative_rows_kernel(std::uint8_t* q, float* scale, const bf16* dy, const bf16* x, int n_packs) {
  __shared__ unsigned shared[32];
  const std::int64_t row = blockIdx.x, columns = std::int64_t{n_packs} * 8;
  uint4 held[2 * Packs], d_packs[Packs], gates[Packs], ups[Packs];
  load_row(d_packs, dy + row * columns, n_packs);
  load_row(gates, x + 2 * row * columns, n_packs);
  load_row(ups, x + (2 * row + 1) * columns, n_packs);
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    float d[8], gate[8], up[8];
    widen(d, d_packs[i]);
    widen(gate, gates[i]);
    widen(up, ups[i]);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float s = sigmoid<false>(gate[j]), dup = d[j] * gate[j] * s;
      gate[j] = d[j] * up[j] * s * (1.0F + gate[j] * (1.0F - s));
      up[j] = dup;
    }
    held[2 * i] = narrowed(gate);
    held[2 * i + 1] = narrowed(up);
  }
  const float inverse = row_scale<Format, 2 * Packs>(held, scale + row, shared);
  auto* const to = reinterpret_cast<uint2*>(q + 2 * row * columns);
#pragma unroll
  for (int i = 0; i < Packs; ++i) {
    const int at = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (at >= n_packs) continue;
    to[at] = quantized<Format>(held[2 * i], inverse);
    to[n_packs + at] = quantized<Format>(held[2 * i + 1], inverse);
  }
}

bool in_rows(const Tensor& q, const RowThreads& row, std::initializer_list<Tensor> tensors) {
  if (row.packs > k_fused_packs || row.threads > k_fused_threads) return false;
  for (const Tensor& t : tensors) {
    if (t && (t.dtype != DType::bf16 || !t.contiguous() || !in_packs(8, {t}))) return false;
  }
  return q.contiguous() && in_packs(16, {q});
}

}  // namespace

void CudaBackend::norm_quantize(Tensor q, Tensor scale, Tensor y, Tensor mean, Tensor rstd, Tensor x, Tensor gain,
                                Tensor bias, NormKind kind, double eps) {
  const RowThreads row(x.columns());
  if (!in_rows(q, row, {x, gain, bias}) || x.rows() == 0) {
    return Backend::norm_quantize(q, scale, y, mean, rstd, x, gain, bias, kind, eps);
  }
  const NormRow a{q.ptr<std::uint8_t>(),   scale.ptr<float>(),     mean.ptr<float>(), rstd.ptr<float>(),
                  x.ptr<bf16>(),           gain.ptr<bf16>(),       bias.ptr<bf16>(),  row.n_packs,
                  static_cast<float>(eps), kind == NormKind::layer};
  by_format(q.dtype, [&](auto format) {
    by_packs(row.packs, [&](auto packs) {
      norm_kernel<format.value, packs.value><<<static_cast<unsigned>(x.rows()), row.threads, 0, stream_>>>(a);
    });
  });
  check_launch();
}

void CudaBackend::activation_quantize(Tensor q, Tensor scale, Tensor y, Tensor x, Activation kind) {
  const RowThreads row(q.columns());
  if (!in_rows(q, row, {x}) || x.rows() == 0) {
    return Backend::activation_quantize(q, scale, y, x, kind);
  }
  by_format(q.dtype, [&](auto format) {
    by_packs(row.packs, [&](auto packs) {
      activation_rows_kernel<format.value, packs.value><<<static_cast<unsigned>(x.rows()), row.threads, 0, stream_>>>(
          q.ptr<std::uint8_t>(), scale.ptr<float>(), x.ptr<bf16>(), row.n_packs, kind);
    });
  });
  check_launch();
}

void CudaBackend::activation_backward_quantize(Tensor q, Tensor scale, Tensor dx, Tensor db, Tensor dy, Tensor x,
                                               Activation kind, Into into) {
  const RowThreads row(dy.columns());
  const bool gated = kind == Activation::swiglu;
  if (!in_rows(q, row, {dy, x}) || dy.rows() == 0 || (gated && db)) {
    return Backend::activation_backward_quantize(q, scale, dx, db, dy, x, kind, into);
  }
  const std::int64_t n_blocks = std::min(dy.rows(), std::int64_t{n_multiprocessors_} * 4);
  float* partial = nullptr;
  if (db) {
    partial = reinterpret_cast<float*>(scratch(static_cast<std::size_t>(n_blocks * dy.columns()) * sizeof(float)));
  }
  by_format(q.dtype, [&](auto format) {
    by_packs(row.packs, [&](auto packs) {
      if (gated) {
        swiglu_derivative_rows_kernel<format.value, packs.value>
            <<<static_cast<unsigned>(dy.rows()), row.threads, 0, stream_>>>(q.ptr<std::uint8_t>(), scale.ptr<float>(),
                                                                            dy.ptr<bf16>(), x.ptr<bf16>(), row.n_packs);
      } else {
        derivative_rows_kernel<format.value, packs.value><<<static_cast<unsigned>(n_blocks), row.threads, 0, stream_>>>(
            q.ptr<std::uint8_t>(), scale.ptr<float>(), dy.ptr<bf16>(), x.ptr<bf16>(), dy.rows(), row.n_packs, kind,
            partial);
      }
    });
  });
  check_launch();
  if (db) sum_partials(stream_, partial, n_blocks, dy.columns(), db, {}, dy.columns(), into);
}

}  // namespace trireme
