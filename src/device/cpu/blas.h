#pragma once
// OpenBLAS in one notation for float and double, and its choice of kernels.

#include <cblas.h>

#include <cstdint>

namespace trireme::cpu {

// OpenBLAS 0.3.21 and its like take the SSE3 kernels on processors younger than themselves: five times slower. When the
// processor can do more than the kernels in use, this chooses again. OPENBLAS_CORETYPE, when set, is left in charge.
void choose_blas_kernels();

enum class Op : std::uint8_t { plain, transposed };

// A row-major matrix: element (r, c) at data[r * ld + c].
template <class R>
struct Matrix {
  R* data = nullptr;
  std::int64_t ld = 0;
};

// c[m, n] = op(a) op(b) + beta c, accumulated in R
void gemm(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const float> a,
          Matrix<const float> b, float beta, Matrix<float> c);
void gemm(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const double> a,
          Matrix<const double> b, double beta, Matrix<double> c);

}  // namespace trireme::cpu
