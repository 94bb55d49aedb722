#pragma once
// Matrix products by cuBLASLt. The algorithm for a problem is found once, by timing the library's best guesses on the
// problem itself, and remembered in memory and in a small file per GPU type and library version.

#include <cublasLt.h>

#include <map>
#include <string>
#include <vector>

#include "cuda_backend.h"
#include "gemm_cache.h"

namespace trireme {

// D[m, n] (+)= op(A) op(B) in column-major terms, as cuBLASLt wants it; with c: D = C + op(A) op(B).
struct GemmProblem {
  bool a_transposed = false, b_transposed = false;
  std::int64_t m = 0, n = 0, k = 0;
  Tensor a, b, d;       // pitch = leading dimension
  Tensor c;             // added to the product, of d's dtype and not the same memory; may be absent
  Tensor bias, before;  // epilogue: bias along m; before = what the GELU was applied to (d is its result)
  bool accumulate = false;
  Tensor a_scale, b_scale;  // fp8: of m and n elements, or of one each
  Accumulation accumulation = Accumulation::exact;
};

class Gemm {
 public:
  Gemm(CudaBackend& backend, const std::string& device_name, std::size_t workspace_bytes);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  void run(const GemmProblem& problem);
  // Best time seen for a problem, measuring it when it is new; 0 when it was not measured or cannot be done.
  double milliseconds(const GemmProblem& problem);
  bool can(const GemmProblem& problem);
  std::string describe() const;

 private:
  struct Plan;
  Plan& plan_for(const GemmProblem& problem);
  void choose(Plan& plan, const GemmProblem& problem);
  using Candidates = std::vector<cublasLtMatmulHeuristicResult_t>;
  Candidates guesses(const Plan& plan, const GemmProblem& problem);
  void time_candidates(Plan& plan, const GemmProblem& problem, Candidates candidates);
  std::vector<double> burst_times(const Plan& plan, const GemmProblem& problem, const Candidates& candidates,
                                  std::byte* d);
  std::vector<double> sustained_times(const Plan& plan, const GemmProblem& problem, const Candidates& candidates,
                                      std::byte* d, double burst_ms);
  cublasStatus_t launch(const Plan& plan, const GemmProblem& problem, const cublasLtMatmulAlgo_t& algorithm,
                        std::byte* d);

  CudaBackend& backend_;
  cublasLtHandle_t handle_ = nullptr;
  std::size_t workspace_bytes_;
  GemmCache cache_;
  std::map<GemmKey, std::unique_ptr<Plan>> plans_;
};

}  // namespace trireme
