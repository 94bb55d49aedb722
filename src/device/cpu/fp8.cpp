// FP8 on the CPU: the rounding of the GPU, bit for bit, and products of the widened values in f32. Written to be read,
// not to be fast: it is the specification of what the GPU does.

#include "trireme/base/fp8.h"

#include <algorithm>
#include <cmath>

#include "../plan/flops.h"
#include "blas.h"
#include "cpu_backend.h"
#include "parallel.h"
#include "storage.h"

namespace trireme::cpu {

namespace {

// Largest magnitude of a row, NaN or infinity when one is among them.
float largest_of(const float* x, std::int64_t n) {
  float largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float magnitude = std::abs(x[i]);
    if (!(magnitude <= largest)) largest = magnitude;
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

// Where the scale of an element lies.
class ScaleAt {
 public:
  ScaleAt(const Tensor& q, const Tensor& scale)
      : scale_(scale.ptr<float>()), scaling_(scaling_of(q, scale)), pitch_(scale.columns()) {}
  std::int64_t place(std::int64_t r, std::int64_t c) const {
    if (scaling_ == Scaling::tensor) return 0;
    if (scaling_ == Scaling::row) return r;
    return scaling_ == Scaling::block ? c / k_scale_block * pitch_ + r : r / k_scale_block * pitch_ + c / k_scale_block;
  }
  float& operator()(std::int64_t r, std::int64_t c) const { return scale_[place(r, c)]; }

 private:
  float* scale_;
  Scaling scaling_;
  std::int64_t pitch_;
};

// q * scale, element by element.
Matrix<const float> widened(const Tensor& q, const Tensor& scale, Workspace& workspace, Slot slot, int threads) {
  float* wide = workspace.get<float>(slot, q.count());
  const std::int64_t columns = q.columns();
  const ScaleAt scale_at(q, scale);
  for_rows(threads, q.rows(), columns, [&](std::int64_t r) {
    const std::uint8_t* from = address<std::uint8_t>(q, r, 0);
    for_pieces(columns, k_scale_block, [&](std::int64_t first, std::int64_t n) {
      const float factor = scale_at(r, first);
      for (std::int64_t c = first; c < first + n; ++c) wide[r * columns + c] = widen_fp8(from[c], q.dtype) * factor;
    });
  });
  return {wide, columns};
}

// NaN above infinity above all numbers.
float larger(float a, float b) {
  return std::isnan(a) || a > b ? a : b;
}

// The larger scale of each 128 x 128 tile for the whole tile: 1 x 128 blocks of the transposed matrix.
void turn_block_scales(const Tensor& out_scale, const Tensor& q_RC, const Tensor& scale) {
  const std::int64_t rows = q_RC.rows(), columns = q_RC.columns();
  float* to = out_scale.ptr<float>();
  for (std::int64_t row = 0; row < rows; row += k_scale_block) {
    for (std::int64_t column = 0; column < columns; column += k_scale_block) {
      const float* of_rows = scale.ptr<float>() + column / k_scale_block * rows;
      float largest = 0;
      for (std::int64_t r = row; r < std::min(rows, row + k_scale_block); ++r) largest = larger(of_rows[r], largest);
      for (std::int64_t c = column; c < std::min(columns, column + k_scale_block); ++c)
        to[row / k_scale_block * columns + c] = largest;
    }
  }
}

void turn_square_scales(const Tensor& out_scale, const Tensor& scale, std::int64_t blocks) {
  std::fill_n(out_scale.ptr<float>(), out_scale.count(), 0.0F);
  for (std::int64_t r = 0; r < scale.rows(); ++r) {
    for (std::int64_t c = 0; c < blocks; ++c)
      out_scale.ptr<float>()[c * out_scale.columns() + r] = scale.ptr<float>()[r * scale.columns() + c];
  }
}

}  // namespace

void CpuBackend::quantize_rows(Tensor q_RC, Tensor scale_R, Tensor x_RC) {
  const std::int64_t columns = x_RC.columns();
  require(q_RC.rows() == x_RC.rows() && q_RC.columns() == columns && scale_R.count() == x_RC.rows(),
          "quantize_rows: q [R, C], scale [R], x [R, C]");
  float* wide = workspace_.get<float>(Slot::gemm_a, x_RC.count());
  for_rows(n_threads_, x_RC.rows(), columns, [&](std::int64_t r) {
    const float* x = read(x_RC, r, 0, columns, wide + r * columns);
    const float scale = fp8_scale(largest_of(x, columns), q_RC.dtype, Scales::powers_of_two);
    scale_R.ptr<float>()[r] = scale;
    std::uint8_t* to = address<std::uint8_t>(q_RC, r, 0);
    for (std::int64_t c = 0; c < columns; ++c) to[c] = round_fp8(x[c] / scale, q_RC.dtype);
  });
}

void CpuBackend::quantize_blocks(Tensor q_RC, Tensor scale, Tensor x_RC, Scales scales) {
  const std::int64_t rows = x_RC.rows(), columns = x_RC.columns();
  require(q_RC.rows() == rows && q_RC.columns() == columns, "quantize_blocks: q [R, C], x [R, C]");
  const std::int64_t height = scaling_of(q_RC, scale) == Scaling::square ? k_scale_block : 1;
  const ScaleAt scale_at(q_RC, scale);
  float* wide = workspace_.get<float>(Slot::gemm_a, x_RC.count());
  if (height > 1) std::fill_n(scale.ptr<float>(), scale.count(), 0.0F);
  for_rows(n_threads_, div_up(rows, height), height * columns, [&](std::int64_t block) {
    const std::int64_t first_row = block * height, last_row = std::min(rows, first_row + height);
    for_pieces(columns, k_scale_block, [&](std::int64_t first, std::int64_t n) {
      float largest = 0;
      for (std::int64_t r = first_row; r < last_row; ++r) {
        float* buffer = wide + r * columns + first;
        const float* x = read(x_RC, r, first, n, buffer);
        if (x != buffer) std::copy(x, x + n, buffer);
        largest = larger(largest_of(buffer, n), largest);
      }
      const float needed = fp8_scale(largest, q_RC.dtype, scales), inverse = 1.0F / needed;
      scale_at(first_row, first) = needed;
      for (std::int64_t r = first_row; r < last_row; ++r) {
        std::uint8_t* to = address<std::uint8_t>(q_RC, r, first);
        for (std::int64_t c = 0; c < n; ++c) to[c] = round_fp8(wide[r * columns + first + c] * inverse, q_RC.dtype);
      }
    });
  });
}

void CpuBackend::largest_magnitude(Tensor out_1, Tensor x_RC) {
  const std::int64_t columns = x_RC.columns();
  float* wide = workspace_.get<float>(Slot::gemm_a, columns);
  float largest = 0;
  for (std::int64_t r = 0; r < x_RC.rows(); ++r)
    largest = larger(largest_of(read(x_RC, r, 0, columns, wide), columns), largest);
  *out_1.ptr<float>() = largest;
}

void CpuBackend::scale_for(Tensor scale_1, Tensor largest_1, DType format, Scales scales) {
  *scale_1.ptr<float>() = fp8_scale(*largest_1.ptr<float>(), format, scales);
}

void CpuBackend::quantize(Tensor q_RC, Tensor x_RC, Tensor scale_1) {
  const std::int64_t columns = x_RC.columns();
  require(q_RC.rows() == x_RC.rows() && q_RC.columns() == columns && scale_1.count() == 1,
          "quantize: q [R, C], x [R, C], scale [1]");
  float* wide = workspace_.get<float>(Slot::gemm_a, x_RC.count());
  const float inverse = 1.0F / *scale_1.ptr<float>();
  for_rows(n_threads_, x_RC.rows(), columns, [&](std::int64_t r) {
    const float* x = read(x_RC, r, 0, columns, wide + r * columns);
    std::uint8_t* to = address<std::uint8_t>(q_RC, r, 0);
    for (std::int64_t c = 0; c < columns; ++c) to[c] = round_fp8(x[c] * inverse, q_RC.dtype);
  });
}

void CpuBackend::transpose_quantized(Tensor q_CR, Tensor scale, Tensor q_RC, Tensor scale_R) {
  const std::int64_t rows = q_RC.rows(), columns = q_RC.columns();
  require(q_CR.rows() == columns && q_CR.columns() == rows, "transpose_quantized: q [C, R], q [R, C]");
  const Scaling scaling = scaling_of(q_RC, scale_R);
  if (scaling == Scaling::tensor) *scale.ptr<float>() = *scale_R.ptr<float>();
  if (scaling == Scaling::block) turn_block_scales(scale, q_RC, scale_R);
  if (scaling == Scaling::square) turn_square_scales(scale, scale_R, div_up(columns, k_scale_block));
  if (scaling == Scaling::row) {
    require(scale_R.count() == rows, "transpose_quantized: scale [R]");
    std::fill_n(scale.ptr<float>(), scale.count(), largest_of(scale_R.ptr<float>(), rows));
  }
  const bool same = scaling == Scaling::tensor || scaling == Scaling::square;
  const ScaleAt before(q_RC, scale_R);
  const std::int64_t pitch = scaling == Scaling::block ? columns : 0;  // of the new scales, from one block to the next
  for_rows(n_threads_, columns, rows, [&](std::int64_t c) {
    std::uint8_t* to = address<std::uint8_t>(q_CR, c, 0);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::uint8_t q = *address<std::uint8_t>(q_RC, r, c);
      const float after = same ? 1.0F : scale.ptr<float>()[pitch > 0 ? r / k_scale_block * pitch + c : 0];
      to[r] = same ? q : round_fp8(widen_fp8(q, q_RC.dtype) * (before(r, c) / after), q_RC.dtype);
    }
  });
}

void CpuBackend::matmul_scaled(Tensor d_MN, Tensor a_MK, Tensor a_scale, Tensor b_NK, Tensor b_scale, Tensor bias_N,
                               Tensor addend_MN, Accumulation) {
  const std::int64_t M = a_MK.rows(), N = b_NK.rows(), K = a_MK.columns();
  require(d_MN.rows() == M && d_MN.columns() == N && b_NK.columns() == K,
          "matmul_scaled: d [M, N], a [M, K], b [N, K]");
  counters_.matmul_flops += matmul_flops(M, N, K);
  const auto a = widened(a_MK, a_scale, workspace_, Slot::gemm_a, n_threads_);
  const auto b = widened(b_NK, b_scale, workspace_, Slot::gemm_b, n_threads_);
  float* product = workspace_.get<float>(Slot::gemm_c, M * N);
  gemm(Op::plain, Op::transposed, M, N, K, a, b, 0.0F, Matrix<float>{product, N});
  for_rows(n_threads_, M, N, [&](std::int64_t r) {
    for_pieces(N, k_block, [&](std::int64_t first, std::int64_t n) {
      float buffer[k_block];
      float* sum = product + r * N + first;
      if (bias_N) {
        const float* bias = read(bias_N.as({1, N}), 0, first, n, buffer);
        for (std::int64_t i = 0; i < n; ++i) sum[i] += bias[i];
      }
      if (addend_MN) {
        const float* addend = read(addend_MN, r, first, n, buffer);
        for (std::int64_t i = 0; i < n; ++i) sum[i] += addend[i];
      }
      store(d_MN, r, first, n, sum);
    });
  });
}

}  // namespace trireme::cpu
