#include "gemm.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "../plan/flops.h"
#include "check.h"
#include "gemm_timer.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr int k_candidates = 16, k_rounds = 5;
// Of products that take at least k_long_ms, those within k_close of the fastest in a burst are timed under load.
constexpr std::size_t k_most_close = 5;
constexpr double k_long_ms = 0.1, k_close = 1.1, k_heat_ms = 300, k_turn_ms = 120;
constexpr int k_turns = 2;

cudaDataType_t cuda_type(DType dtype) {
  constexpr std::pair<DType, cudaDataType_t> known[] = {{DType::f32, CUDA_R_32F},
                                                        {DType::bf16, CUDA_R_16BF},
                                                        {DType::f16, CUDA_R_16F},
                                                        {DType::e4m3, CUDA_R_8F_E4M3},
                                                        {DType::e5m2, CUDA_R_8F_E5M2}};
  for (const auto& [ours, theirs] : known) {
    if (ours == dtype) return theirs;
  }
  throw Error(Exit::usage, std::string("CUDA has no matmul() for ") + name_of(dtype) +
                               ": set precision.compute to \"fp32\", \"bf16\" or \"fp16\", or device.kind = \"cpu\"");
}

// Largest power of two up to 16 that divides the address and every row.
std::int64_t alignment_of(const Tensor& t) {
  if (!t) return 16;
  const auto bits = reinterpret_cast<std::uintptr_t>(t.data) |
                    static_cast<std::uintptr_t>(t.pitch * static_cast<std::int64_t>(size_of(t.dtype))) | 16U;
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

GemmKey key_of(const GemmProblem& p) {
  const auto type = [](const Tensor& t) { return static_cast<std::int64_t>(t.dtype); };
  // 1: one for all, 2: per row; with blocks 8 or more. fast is 16 in what follows.
  std::int64_t scales = !p.a_scale ? 0 : p.a_scale.count() == 1 ? 1 : 2;
  if (p.a_scale.shape.rank == 2) {
    scales = 8 * (1 + static_cast<std::int64_t>(scaling_of(p.a, p.a_scale)) * 4 +
                  static_cast<std::int64_t>(scaling_of(p.b, p.b_scale)));
  }
  const bool fast = p.accumulation == Accumulation::fast;
  return {p.a_transposed * 2 + p.b_transposed + 4 * scales + (fast ? 16 : 0),
          p.m,
          p.n,
          p.k,
          p.a.pitch,
          p.b.pitch,
          p.d.pitch,
          type(p.a) * 256 + type(p.b),
          type(p.d),
          p.accumulate * 4 + (p.before ? 2 : 0) + (p.bias ? 1 : 0),
          alignment_of(p.a),
          alignment_of(p.b),
          alignment_of(p.d),
          p.before ? p.before.pitch : 0,
          p.c ? p.c.pitch : 0,
          alignment_of(p.c)};
}

template <class T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value));
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
}

cublasLtMatmulMatrixScale_t scale_mode(const Tensor& q, const Tensor& scale) {
  constexpr cublasLtMatmulMatrixScale_t modes[] = {
      CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
      CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F};
  return modes[static_cast<std::size_t>(scaling_of(q, scale))];
}

cublasLtMatrixLayout_t layout(const Tensor& t, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, cuda_type(t.dtype), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), t.pitch));
  return made;
}

}  // namespace

struct Gemm::Plan {
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  double milliseconds = 0;
  bool usable = true;

  Plan(const GemmProblem& p, bool allow_tf32) {
    const bool tf32 = allow_tf32 && p.a.dtype == DType::f32;
    check(cublasLtMatmulDescCreate(&description, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description, CUBLASLT_MATMUL_DESC_TRANSB, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set_epilogue(p);
    a = p.a_transposed ? layout(p.a, p.k, p.m) : layout(p.a, p.m, p.k);
    b = p.b_transposed ? layout(p.b, p.n, p.k) : layout(p.b, p.k, p.n);
    c = layout(p.c ? p.c : p.d, p.m, p.n);
    d = layout(p.d, p.m, p.n);
  }
  ~Plan() {
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(c);
    cublasLtMatrixLayoutDestroy(d);
    cublasLtMatmulDescDestroy(description);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  void set_epilogue(const GemmProblem& p) const {
    if (p.a_scale) {
      set(description, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, scale_mode(p.a, p.a_scale));
      set(description, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, scale_mode(p.b, p.b_scale));
      set(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM,
          static_cast<std::int8_t>(p.accumulation == Accumulation::fast ? 1 : 0));
    }
    if (p.before) {
      require(p.before.dtype == p.d.dtype, "a fused activation stores both of its results in one dtype");
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE,
          p.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX);
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.before.pitch);
    } else if (p.bias) {
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    }
    if (p.bias && p.bias.dtype != p.d.dtype) {
      set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(cuda_type(p.bias.dtype)));
    }
    point_epilogue(p);
  }
  // The same plan serves every layer: only the pointers change.
  void point_epilogue(const GemmProblem& p) const {
    if (p.before) set(description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(p.before.data));
    if (p.bias) set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(p.bias.data));
    if (p.a_scale) set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(p.a_scale.data));
    if (p.b_scale) set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(p.b_scale.data));
  }
};

Gemm::Gemm(CudaBackend& backend, const std::string& device_name, std::size_t workspace_bytes)
    : backend_(backend),
      workspace_bytes_(workspace_bytes),
      // Deterministic runs take the library's first guess: a file written by another run must not change the bits.
      cache_(backend.options().deterministic ? "" : [&] {
        std::string gpu = device_name;
        std::replace(gpu.begin(), gpu.end(), ' ', '_');
        return format("gemm-loaded-%s-%zu.txt", gpu.c_str(), cublasLtGetVersion());
      }()) {
  check(cublasLtCreate(&handle_));
}

Gemm::~Gemm() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

std::string Gemm::describe() const {
  const std::size_t v = cublasLtGetVersion();
  return format("cuBLASLt %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

cublasStatus_t Gemm::launch(const Plan& plan, const GemmProblem& p, const cublasLtMatmulAlgo_t& algorithm,
                            std::byte* d) {
  const float alpha = 1.0F, beta = p.accumulate || p.c ? 1.0F : 0.0F;
  return cublasLtMatmul(handle_, plan.description, &alpha, p.a.data, plan.a, p.b.data, plan.b, &beta,
                        p.c ? p.c.data : d, plan.c, d, plan.d, &algorithm, backend_.scratch(workspace_bytes_),
                        workspace_bytes_, backend_.stream());
}

void Gemm::run(const GemmProblem& problem) {
  const Plan& plan = plan_for(problem);
  if (!plan.usable) {
    throw Error(
        Exit::rank,
        format("cuBLASLt has no algorithm for a matrix product of %lld x %lld x %lld (%s, %s into %s)",
               static_cast<long long>(problem.m), static_cast<long long>(problem.n), static_cast<long long>(problem.k),
               name_of(problem.a.dtype), name_of(problem.b.dtype), name_of(problem.d.dtype)));
  }
  plan.point_epilogue(problem);
  check(launch(plan, problem, plan.algorithm, problem.d.data));
  if (plan.milliseconds == 0) return;
  backend_.counters().timed_flops += matmul_flops(problem.m, problem.n, problem.k);
  backend_.counters().timed_seconds += 1e-3 * plan.milliseconds;
}

double Gemm::milliseconds(const GemmProblem& problem) {
  return plan_for(problem).milliseconds;
}

bool Gemm::can(const GemmProblem& problem) {
  return plan_for(problem).usable;
}

Gemm::Plan& Gemm::plan_for(const GemmProblem& problem) {
  auto& plan = plans_[key_of(problem)];
  if (!plan) {
    auto made = std::make_unique<Plan>(problem, backend_.options().allow_tf32);
    choose(*made, problem);
    plan = std::move(made);
  }
  return *plan;
}

void Gemm::choose(Plan& plan, const GemmProblem& p) {
  const GemmKey key = key_of(p);
  if (const auto known = cache_.find(key)) {
    std::copy(known->algorithm.begin(), known->algorithm.end(), std::begin(plan.algorithm.data));
    cublasLtMatmulHeuristicResult_t result{};
    const auto status =
        cublasLtMatmulAlgoCheck(handle_, plan.description, plan.a, plan.b, plan.c, plan.d, &plan.algorithm, &result);
    if (status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= workspace_bytes_) {
      plan.milliseconds = known->milliseconds;
      return;
    }
  }
  auto candidates = guesses(plan, p);
  plan.usable = !candidates.empty();
  if (!plan.usable) return;
  plan.algorithm = candidates.front().algo;
  if (backend_.options().deterministic || candidates.size() == 1 || backend_.capturing()) return;
  time_candidates(plan, p, candidates);
  GemmChoice choice;
  std::copy(std::begin(plan.algorithm.data), std::end(plan.algorithm.data), choice.algorithm.begin());
  choice.milliseconds = plan.milliseconds;
  cache_.put(key, choice);
}

// The library's best guesses, best first; none when it cannot do the problem.
Gemm::Candidates Gemm::guesses(const Plan& plan, const GemmProblem& p) {
  Candidates candidates(k_candidates);
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes_);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(alignment_of(p.a)));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(alignment_of(p.b)));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      static_cast<std::uint32_t>(alignment_of(p.c ? p.c : p.d)));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(alignment_of(p.d)));
  // Parts of a sum are added in f32 and rounded once; in f32 any order of adding serves a run that need not repeat.
  if (backend_.options().deterministic || p.d.dtype != DType::f32) {
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  }
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, plan.description, plan.a, plan.b, plan.c, plan.d, preference, k_candidates, candidates.data(), &found);
  check(cublasLtMatmulPreferenceDestroy(preference));
  candidates.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(found) : 0);
  return candidates;
}

// Median milliseconds of single runs, one after the other; very long for an algorithm that fails.
std::vector<double> Gemm::burst_times(const Plan& plan, const GemmProblem& p, const Candidates& candidates,
                                      std::byte* d) {
  const Timer timer;
  std::vector<std::vector<float>> times(candidates.size());
  for (int round = -1; round < k_rounds; ++round) {
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      check(cudaEventRecord(timer.begin, backend_.stream()));
      const bool ran = launch(plan, p, candidates[c].algo, d) == CUBLAS_STATUS_SUCCESS;
      check(cudaEventRecord(timer.end, backend_.stream()));
      check(cudaEventSynchronize(timer.end));
      float ms = 0;
      check(cudaEventElapsedTime(&ms, timer.begin, timer.end));
      if (round >= 0) times[c].push_back(ran ? ms : 1e30F);
    }
  }
  std::vector<double> medians;
  for (auto& t : times) medians.push_back(median(t));
  return medians;
}

// Training runs at the power limit, where the clock falls to what the algorithm's energy allows: the fastest in a short
// burst is often not the fastest then (H200, 1.3B shapes: 2 % of the step). Turns of equal length, after
// the device is hot; the better of each one's turns.
std::vector<double> Gemm::sustained_times(const Plan& plan, const GemmProblem& p, const Candidates& candidates,
                                          std::byte* d, double burst_ms) {
  const Timer timer;
  const auto repeat = [&](std::size_t c, double ms) {
    const int n = std::max(1, static_cast<int>(ms / burst_ms));
    for (int i = 0; i < n; ++i) check(launch(plan, p, candidates[c].algo, d));
    return n;
  };
  repeat(0, k_heat_ms);
  std::vector<double> times(candidates.size(), 1e30);
  for (int turn = 0; turn < k_turns; ++turn) {
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      repeat(c, k_turn_ms / 2);  // the clock follows the load with a delay
      check(cudaEventRecord(timer.begin, backend_.stream()));
      const int n = repeat(c, k_turn_ms);
      check(cudaEventRecord(timer.end, backend_.stream()));
      check(cudaEventSynchronize(timer.end));
      float ms = 0;
      check(cudaEventElapsedTime(&ms, timer.begin, timer.end));
      times[c] = std::min(times[c], static_cast<double>(ms) / n);
    }
  }
  return times;
}

// A product that overwrites its result may be run again and again; one that accumulates is timed into other memory.
void Gemm::time_candidates(Plan& plan, const GemmProblem& p, Candidates candidates) {
  std::byte* d = p.d.data;
  void* other = nullptr;
  if (p.accumulate) {
    const auto bytes = static_cast<std::size_t>(p.d.pitch * p.n) * size_of(p.d.dtype);
    if (cudaMalloc(&other, bytes) != cudaSuccess) {
      (void)cudaGetLastError();  // clear it: the first guess serves
      return;
    }
    check(cudaMemsetAsync(other, 0, bytes, backend_.stream()));
    d = static_cast<std::byte*>(other);
  }
  std::vector<double> times = burst_times(plan, p, candidates, d);
  const double first_guess = times.front();
  const double best = *std::min_element(times.begin(), times.end());
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return times[a] < times[b]; });
  Candidates close;
  for (const std::size_t c : order)
    if (times[c] <= k_close * best && close.size() < k_most_close) close.push_back(candidates[c]);
  if (best >= k_long_ms && close.size() > 1) {
    times = sustained_times(plan, p, close, d, best);
    candidates = close;
  }
  check(cudaFree(other));
  const auto chosen = std::min_element(times.begin(), times.end()) - times.begin();
  plan.milliseconds = times[static_cast<std::size_t>(chosen)];
  plan.algorithm = candidates[static_cast<std::size_t>(chosen)].algo;
  log().debug(format(
      "GEMM %lldx%lldx%lld: %.3f ms, first guess %.3f ms, %.0f TFLOP/s", static_cast<long long>(p.m),
      static_cast<long long>(p.n), static_cast<long long>(p.k), plan.milliseconds, first_guess,
      2e-9 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) / plan.milliseconds));
}

}  // namespace trireme
