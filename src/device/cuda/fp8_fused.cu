// FP8 rows straight from what makes them: norms and activations. Their derivatives are in fp8_derivative.cu.

#include "activation.cuh"
#include "fp8_rows.cuh"

namespace trireme {

namespace {

struct NormRow {
  std::uint8_t* q;
  float *scale, *mean, *rstd;
  const bf16 *x, *gain, *bias;
  int n_packs;
  float eps;
  bool layer;
};

template <__nv_fp8_interpretation_t Format, class Row>
__global__ void __launch_bounds__(Row::threads) norm_kernel(NormRow a) {
  constexpr int Packs = Row::packs;
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

template <__nv_fp8_interpretation_t Format, class Row>
__global__ void __launch_bounds__(Row::threads)
    activation_rows_kernel(std::uint8_t* q, float* scale, const bf16* x, int n_packs, Activation kind) {
  constexpr int Packs = Row::packs;
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
    by_row(row, [&](auto shape) {
      norm_kernel<format.value, decltype(shape)><<<static_cast<unsigned>(x.rows()), row.threads, 0, stream_>>>(a);
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
    by_row(row, [&](auto shape) {
      activation_rows_kernel<format.value, decltype(shape)>
          <<<static_cast<unsigned>(x.rows()), row.threads, 0, stream_>>>(q.ptr<std::uint8_t>(), scale.ptr<float>(),
                                                                         x.ptr<bf16>(), row.n_packs, kind);
    });
  });
  check_launch();
}

}  // namespace trireme
