#pragma once
// Everything the model asks of the hardware. One object per process; calls run in order on its compute stream and
// return at once where the device allows it. CpuBackend is the specification, CudaBackend must agree with it to the
// tolerances of tests/parity, PlanBackend counts and computes nothing.
//
// Legend: T local tokens, C channels (hidden), F features, H query heads, G key/value heads, D head size, V local
// vocabulary rows. "+=" marks outputs that accumulate, "=" those that are overwritten; Into chooses.
// Dtypes: "compute" is the storage type of activations and weights (f64 f32 bf16 f16), "acc" is
// accumulator_of(compute). Statistics (mean, rstd, lse, softmax max and sum, losses) are acc. Gradients of parameters
// are acc or compute. Tensors are contiguous unless the comment says "pitched". An op with zero rows does nothing.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trireme/base/philox.h"
#include "trireme/device/fp8_scaling.h"
#include "trireme/device/tensor.h"

namespace trireme {

enum class Into : std::uint8_t { replace, add };
enum class Accumulation : std::uint8_t { exact, fast };
enum class NormKind : std::uint8_t { layer, rms };
// swiglu and geglu read [gate | up] of 2F columns and write F; the others are F to F.
enum class Activation : std::uint8_t { gelu_tanh, gelu_erf, relu_squared, swiglu };

// One attention call: for each of n_sequences, q_rows queries against k_rows keys. Row i of sequence b is row
// b*q_stride + i of the q, out and gradient tensors (b*k_stride + i for k and v). Query i stands at position
// first_q + i of its sequence, key j at first_k + j; i attends j when
//   pos_j <= pos_i,  pos_j > pos_i - window (window > 0),  pos_j >= doc_start_i (when given).
// Rows with nothing to attend give out = 0 and lse = -infinity.
struct AttentionShape {
  std::int64_t n_sequences = 1, query_heads = 1, kv_heads = 1, head_dim = 1;
  std::int64_t q_rows = 0, q_stride = 0, k_rows = 0, k_stride = 0;
  std::int64_t first_q = 0, first_k = 0;
  std::int64_t window = 0;
  double scale = 1.0;
  bool all_visible() const {
    return first_k + k_rows - 1 <= first_q && window == 0;
  }  // no mask needed (without documents)
};

// Element (r, c) of a box of a global matrix is normal number (first_row + r) * global_columns + first_column + c.
struct NormalFill {
  RandomKey key;
  std::int64_t first_row = 0, first_column = 0, global_columns = 1;
  double std = 1.0;
};

struct AdamWTensors {
  Tensor param;   // compute; written
  Tensor master;  // f32 or f64, the same memory as param when the dtypes agree; u16: what param (bf16) lacks of an f32,
                  // as a signed 16-bit number: master_bits = param_bits * 65536 + int16(master) (mod 2^32). param is
                  // then the master rounded to nearest, ties away from zero: param_bits = (master_bits + 32768) / 65536
  Tensor m, v;    // f64, f32 or bf16
  Tensor grad;    // acc or compute
};

// One AdamW update (Loshchilov & Hutter, 2019, algorithm 2, decoupled decay):
//   g = grad * grad_scale * clip_factor;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
//   p = p - lr * (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + weight_decay * p)
// clip_factor = min(1, clip / (norm + 1e-6)), norm = grad_scale * sqrt(norm_sq); clip = 0 means no clipping.
// Nothing is written when norm_sq is not finite: the step is skipped, on every rank alike.
struct AdamWStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0;
  std::int64_t t = 1;  // update number, from 1
  double grad_scale = 1, clip = 0;
  // Stochastic rounding of bf16 m, v (and of param when master is absent): element i adds 16 bits to the f32 bits and
  // keeps the high half: the low half of random_word(rounding, first_index + i) for m, its high half for v, for param
  // the low half of the word under the key whose stream is one more. Infinities and NaN are left alone.
  RandomKey rounding;
  std::int64_t first_index = 0;  // global index of element 0, for the key
};

struct CrossEntropy {
  std::int64_t first_row = 0;  // vocabulary id of column 0
  std::int64_t n_valid = 0;    // local columns that are real tokens; the rest is padding and has probability 0
  double scale = 1;            // of the gradient
  double z_loss = 0;           // coefficient of lse^2
};

// What a backend counted since reset. FLOPs are 2 per multiply-add of matmuls and of visible attention pairs.
struct Counters {
  double matmul_flops = 0, attention_flops = 0;
  // Of the products whose algorithm was chosen by timing: their FLOPs, and what they would take at the speed seen then.
  double timed_flops = 0, timed_seconds = 0;
};

class Backend {
 public:
  static constexpr std::int64_t k_kept_marks = 4096;

  virtual ~Backend() = default;
  virtual std::string describe() const = 0;         // for the start-up table: device, libraries, attention in use
  virtual std::size_t workspace_bytes() const = 0;  // what the backend holds for itself; stops growing after one step

  // The first call of an operation may wait for all work of the device (loading code, timing algorithms). Where ranks
  // do different things, nothing that waits for another rank may be in flight then: rehearse first.
  virtual bool first_calls_wait() const { return false; }

  virtual std::size_t memory_bytes() const { return 0; }  // free memory of the device; 0: not known
  virtual bool host_memory() const { return false; }      // tensors lie where the host can read and write them

  // --- memory; allocate is for start-up only
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;
  virtual void to_device(Tensor dst, const void* host) = 0;  // host may be reused on return
  virtual void to_host(void* host, Tensor src) = 0;          // returns when the bytes are there
  virtual void to_host_later(void* pinned, Tensor src) = 0;  // valid after wait(mark()) taken after this call
  virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(std::byte* memory) noexcept = 0;
  virtual std::int64_t mark() = 0;  // a point on the compute stream
  // Seconds, on the device's clock, of one of the newest k_kept_marks marks that the device has passed.
  virtual double time_of(std::int64_t mark) = 0;
  virtual void wait(std::int64_t mark) = 0;  // until the device has passed it
  virtual void synchronize() = 0;
  virtual Counters& counters() = 0;
  // What is enqueued in between has a name in the tools of the device's vendor (NVTX); nested.
  virtual void enter_range(const char* /*name*/) {}
  virtual void leave_range() {}

  // --- elementwise
  virtual void fill(Tensor x, double value) = 0;                      // pitched
  virtual void fill_normal(Tensor x_RC, const NormalFill& fill) = 0;  // computed in f64, rounded to dtype
  virtual void copy(Tensor dst, Tensor src) = 0;                      // pitched; dtypes may differ: rounds
  virtual void add(Tensor y /*+=*/, Tensor x) = 0;                    // pitched; sum in the wider dtype
  virtual void scale(Tensor x, double factor) = 0;
  // y = residual + dropped(x + bias); residual and bias may be absent, y may alias x or residual. Element (t, c) is
  // kept when word (rows_T[t] * C + c) of the key >= p * 2^32, and then scaled by 1/(1-p). p = 0: no randomness is
  // drawn.
  virtual void dropout_add(Tensor y_TC, Tensor x_TC, Tensor bias_C, Tensor residual_TC, Tensor rows_T /*i64*/, double p,
                           const RandomKey& key) = 0;
  virtual void dropout_backward(Tensor dx_TC /*=*/, Tensor dy_TC, Tensor rows_T, double p, const RandomKey& key) = 0;

  // --- matrix products; accumulated in acc, rounded once. y, x, dy, dx may be pitched. bias may be absent.
  virtual void matmul(Tensor y_TF, Tensor x_TC, Tensor w_FC, Tensor bias_F) = 0;  // y = x w^T + b
  virtual void matmul_dx(Tensor dx_TC, Tensor dy_TF, Tensor w_FC) = 0;            // dx = dy w
  virtual void matmul_dw(Tensor dw_FC, Tensor dy_TF, Tensor x_TC,
                         Into into) = 0;  // dw (+)= dy^T x; += into 16 bits may round twice
  virtual void sum_rows(Tensor db_F, Tensor dy_TF /*pitched*/, Into into) = 0;  // db (+)= sum_t dy

  // --- fp8 (e4m3, e5m2): a matrix is stored as q with value q * scale (f32, base/fp8.h, fp8_scaling.h).
  // Each row gets its own scale, a power of two: current scaling in one pass, with nothing to reduce over ranks.
  virtual void quantize_rows(Tensor q_RC, Tensor scale_R, Tensor x_RC /*pitched*/) = 0;
  // Each 1 x 128 block or 128 x 128 square, by the shape of scale, gets a scale of its own.
  virtual void quantize_blocks(Tensor q_RC, Tensor scale, Tensor x_RC /*pitched*/, Scales scales) = 0;
  // One scale for a matrix that ranks may share: its largest magnitude (=, f32; NaN above infinity above all), what
  // scale that needs, and q = x * (1 / scale); what is too large becomes the largest number.
  virtual void largest_magnitude(Tensor out_1, Tensor x_RC /*pitched*/) = 0;
  virtual void scale_for(Tensor scale_1, Tensor largest_1, DType format, Scales scales) = 0;
  virtual void quantize(Tensor q_RC, Tensor x_RC /*pitched*/, Tensor scale_1) = 0;
  // The transposed matrix. From a scale per row: with one scale, the largest of scale_R, written to every element of
  // scale (any number). From 1 x 128 blocks: to such blocks of the result, each with the largest scale of the square
  // that it is in. An element changes only where it becomes subnormal (and where scales are no powers of two, as it is
  // rounded again). From one scale or squares: the same bytes and scales.
  virtual void transpose_quantized(Tensor q_CR, Tensor scale, Tensor q_RC, Tensor scale_R) = 0;
  // d = addend + bias + a b^T, a and b in fp8, both with a scale per row, both with one, or in blocks (one of the two
  // may be in squares). addend may be d or absent; bias may be absent. Products are added in f32; fast: with fewer bits
  // where the hardware offers that.
  virtual void matmul_scaled(Tensor d_MN, Tensor a_MK, Tensor a_scale, Tensor b_NK, Tensor b_scale, Tensor bias_N,
                             Tensor addend_MN, Accumulation accumulation) = 0;

  // --- normalisation over C: layer y = (x - mean) rstd gain + bias; rms y = x rstd gain (mean_T, bias absent).
  // rstd = 1/sqrt(var + eps), var biased; rms: mean of squares.
  virtual void norm(Tensor y_TC, Tensor mean_T, Tensor rstd_T, Tensor x_TC, Tensor gain_C, Tensor bias_C, NormKind kind,
                    double eps) = 0;
  // Adds to dx (the residual's gradient is already in it); dgain and dbias (+)= in a fixed order.
  virtual void norm_backward(Tensor dx_TC /*+=*/, Tensor dgain_C, Tensor dbias_C, Tensor dy_TC, Tensor x_TC,
                             Tensor mean_T, Tensor rstd_T, Tensor gain_C, NormKind kind, Into into) = 0;
  // RMS norm of each head's D channels (QK-norm): x and y are pitched [T, H*D], rstd is [T, H], gain [D].
  virtual void head_norm(Tensor y, Tensor rstd_TH, Tensor x, Tensor gain_D, double eps) = 0;
  virtual void head_norm_backward(Tensor dx /*=, pitched*/, Tensor dgain_D, Tensor dy /*pitched*/, Tensor x /*pitched*/,
                                  Tensor rstd_TH, Tensor gain_D, Into into) = 0;

  // --- activation
  virtual void activation(Tensor y_TF, Tensor x, Activation kind) = 0;
  virtual void activation_backward(Tensor dx, Tensor dy_TF, Tensor x, Activation kind) = 0;

  // Rotates pairs (i, i + R/2) of the first R = 2*table columns of each head by the table's angle of position_T[t]
  // ("half" convention of Llama and GPT-NeoX). x: pitched [T, H*D], in place. table: [positions, R/2, 2] = (cos, sin),
  // acc. backward: turns the other way.
  virtual void rope(Tensor x, Tensor position_T /*i32*/, Tensor table, std::int64_t head_dim, bool backward) = 0;

  // --- attention; q, k, v, out, dout, dq, dk, dv pitched. lse: [n_sequences * H, q_rows], pitched, acc. doc_start_T:
  // i32 per query row (same strides as q), not falling from row to row of a sequence, or absent. out and the gradients
  // are compute or acc.
  virtual void attention(Tensor out, Tensor lse, Tensor q, Tensor k, Tensor v, Tensor doc_start_T,
                         const AttentionShape& shape) = 0;
  // Folds a partial result into (out, lse); rows as in `shape` (only q_* and heads are used); out, part_out are acc.
  virtual void attention_merge(Tensor out, Tensor lse, Tensor part_out, Tensor part_lse,
                               const AttentionShape& shape) = 0;
  // out and lse are those of the whole softmax; dq, dk, dv (+)= this call's share.
  virtual void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q,
                                  Tensor k, Tensor v, Tensor doc_start_T, const AttentionShape& shape, Into into) = 0;

  // --- embedding. Ids outside [first_row, first_row + rows of table) contribute nothing. ids: i32.
  virtual void embed(Tensor y_TC, Tensor table_VC, Tensor ids_T, std::int64_t first_row, Into into) = 0;
  virtual void embed_backward(Tensor dtable_VC /*+=*/, Tensor dy_TC, Tensor ids_T, std::int64_t first_row) = 0;

  // --- vocabulary-parallel cross entropy in three calls; the reductions between them belong to the layer.
  // One pass: local maximum, sum of exp(logit - max), and the target's logit (0 when it is another rank's). target < 0:
  // masked.
  virtual void softmax_stats(Tensor max_T, Tensor sum_T, Tensor picked_T, Tensor logits_TV, Tensor target_T /*i32*/,
                             const CrossEntropy& ce) = 0;
  // sum *= exp(local_max - global_max): makes the sums of different ranks addable.
  virtual void softmax_rescale(Tensor sum_T, Tensor local_max_T, Tensor global_max_T) = 0;
  // loss = log(sum) + max - picked (0 where masked) [+ z_loss lse^2 in the gradient only]; logits become
  // scale * dloss/dlogits. backward = false leaves the logits alone.
  virtual void cross_entropy(Tensor loss_T, Tensor logits_TV, Tensor target_T, Tensor max_T, Tensor sum_T,
                             Tensor picked_T, const CrossEntropy& ce, bool backward) = 0;

  // --- reductions and optimizer
  virtual void sum(Tensor out_1 /*f64, +=*/, Tensor x) = 0;
  virtual void sum_of_squares(Tensor out_1 /*f64, +=*/, Tensor x) = 0;
  virtual void adamw(const AdamWTensors& tensors, const AdamWStep& step, Tensor norm_sq_1 /*f64*/) = 0;

  // --- fused forms: the default body calls the parts; a backend overrides one where that pays.
  // residual_out = residual + dropped(x + bias), y = norm(residual_out)
  virtual void add_norm(Tensor y_TC, Tensor mean_T, Tensor rstd_T, Tensor residual_out_TC, Tensor x_TC, Tensor x_bias_C,
                        Tensor residual_TC, Tensor rows_T, double p, const RandomKey& key, Tensor gain_C, Tensor bias_C,
                        NormKind kind, double eps) {
    dropout_add(residual_out_TC, x_TC, x_bias_C, residual_TC, rows_T, p, key);
    norm(y_TC, mean_T, rstd_T, residual_out_TC, gain_C, bias_C, kind, eps);
  }
  // y = residual + x w^T + b; bias may be absent, y is neither x nor residual
  virtual void matmul_residual(Tensor y_TF, Tensor x_TC, Tensor w_FC, Tensor bias_F, Tensor residual_TF) {
    matmul(y_TF, x_TC, w_FC, Tensor{});
    dropout_add(y_TF, y_TF, bias_F, residual_TF, Tensor{}, 0.0, RandomKey{});
  }
  // The whole cross entropy of rows whose vocabulary is on this rank alone: softmax_stats and cross_entropy in one.
  virtual void cross_entropy_whole(Tensor loss_T, Tensor logits_TV, Tensor target_T, Tensor max_T, Tensor sum_T,
                                   Tensor picked_T, const CrossEntropy& ce, bool backward) {
    softmax_stats(max_T, sum_T, picked_T, logits_TV, target_T, ce);
    cross_entropy(loss_T, logits_TV, target_T, max_T, sum_T, picked_T, ce, backward);
  }
  // before = x w^T + b (kept for the backward pass), y = activation(before)
  virtual void matmul_activation(Tensor y_TF, Tensor before, Tensor x_TC, Tensor w, Tensor bias, Activation kind) {
    matmul(before, x_TC, w, bias);
    activation(y_TF, before, kind);
  }
  // The three producers of fp8 rows. y (dx) is memory of the unquantised result's shape, whose content is unspecified
  // afterwards.
  virtual void norm_quantize(Tensor q_TC, Tensor scale_T, Tensor y_TC, Tensor mean_T, Tensor rstd_T, Tensor x_TC,
                             Tensor gain_C, Tensor bias_C, NormKind kind, double eps) {
    norm(y_TC, mean_T, rstd_T, x_TC, gain_C, bias_C, kind, eps);
    quantize_rows(q_TC, scale_T, y_TC);
  }
  virtual void activation_quantize(Tensor q_TF, Tensor scale_T, Tensor y_TF, Tensor x, Activation kind) {
    activation(y_TF, x, kind);
    quantize_rows(q_TF, scale_T, y_TF);
  }
  virtual void activation_backward_quantize(Tensor q, Tensor scale_T, Tensor dx, Tensor db, Tensor dy_TF, Tensor x,
                                            Activation kind, Into into) {
    activation_backward_bias(dx, db, dy_TF, x, kind, into);
    quantize_rows(q, scale_T, dx);
  }
  // dx as activation_backward, db (+)= column sums of dx (absent: none)
  virtual void activation_backward_bias(Tensor dx, Tensor db, Tensor dy_TF, Tensor x, Activation kind, Into into) {
    activation_backward(dx, dy_TF, x, kind);
    if (db) sum_rows(db, dx, into);
  }
};

enum class DeviceKind : std::uint8_t { cpu, cuda };
std::unique_ptr<Backend> make_cpu_backend(int n_threads);

struct CudaOptions {
  bool deterministic = false;  // every op gives the same bits in every run
  bool allow_tf32 = false;     // f32 matrix products may round their operands to TF32
};
// Throws Error when the build has no CUDA, the driver is missing or no device is free for this node-local rank.
std::unique_ptr<Backend> make_cuda_backend(int local_rank, const CudaOptions& options);
int cuda_device_count();  // visible devices; 0 in a build without CUDA
// What tells the GPU of this node-local rank from the others of the node (its UUID); empty without one.
std::string cuda_device_id(int local_rank);
std::unique_ptr<Backend> make_plan_backend(DeviceKind as_if);

}  // namespace trireme
