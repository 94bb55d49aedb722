#include "blas.h"

#include <cstdlib>
#include <string_view>

// Exported by OpenBLAS when it was built to choose its kernels at run time; absent otherwise.
extern "C" {
void gotoblas_dynamic_init() __attribute__((weak));
void gotoblas_dynamic_quit() __attribute__((weak));
}

namespace trireme::cpu {

namespace {

#if defined(__x86_64__)
// The kernels this processor deserves; empty when the older ones are right.
const char* better_kernels() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return "SkylakeX";
  }
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell" : "";
}
#else
const char* better_kernels() {
  return "";
}
#endif

bool too_old(std::string_view kernels) {
  return kernels == "Prescott" || kernels == "Core2" || kernels == "Nehalem" || kernels == "Sandybridge";
}

}  // namespace

void choose_blas_kernels() {
  if (gotoblas_dynamic_init == nullptr || gotoblas_dynamic_quit == nullptr) return;
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr || !too_old(openblas_get_corename())) return;
  const char* better = better_kernels();
  if (*better == '\0') return;
  setenv("OPENBLAS_CORETYPE", better, 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv("OPENBLAS_CORETYPE");
}

namespace {

blasint narrow_int(std::int64_t n) {
  return static_cast<blasint>(n);
}
CBLAS_TRANSPOSE to_blas(Op op) {
  return op == Op::plain ? CblasNoTrans : CblasTrans;
}

}  // namespace

void gemm(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const float> a,
          Matrix<const float> b, float beta, Matrix<float> c) {
  cblas_sgemm(CblasRowMajor, to_blas(op_a), to_blas(op_b), narrow_int(m), narrow_int(n), narrow_int(k), 1.0F, a.data,
              narrow_int(a.ld), b.data, narrow_int(b.ld), beta, c.data, narrow_int(c.ld));
}

void gemm(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const double> a,
          Matrix<const double> b, double beta, Matrix<double> c) {
  cblas_dgemm(CblasRowMajor, to_blas(op_a), to_blas(op_b), narrow_int(m), narrow_int(n), narrow_int(k), 1.0, a.data,
              narrow_int(a.ld), b.data, narrow_int(b.ld), beta, c.data, narrow_int(c.ld));
}

}  // namespace trireme::cpu
