// Attention by cuDNN through its header-only frontend. One plan per shape, kept; a call that cuDNN does not know is
// declined: f32 storage, head sizes that are no multiple of 8, masks other than causal, window and none.

#include <cudnn_frontend.h>

#include <bit>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "check.h"
#include "cuda_backend.h"
#include "library_attention.h"
#include "stand_in.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

namespace fe = cudnn_frontend;

void check(cudnnStatus_t code, Where where = Where::here()) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  throw Error(Exit::rank,
              format("cuDNN: %s in %s, %s:%d", cudnnGetErrorString(code), where.function, where.file, where.line));
}
void check(fe::error_t error, Where where = Where::here()) {
  if (error.is_good()) return;
  throw Error(Exit::rank,
              format("cuDNN: %s in %s, %s:%d", error.get_message().c_str(), where.function, where.file, where.line));
}

fe::DataType_t cudnn_type(DType dtype) {
  if (dtype == DType::bf16) return fe::DataType_t::BFLOAT16;
  return dtype == DType::f16 ? fe::DataType_t::HALF : fe::DataType_t::FLOAT;
}

enum class Mask : std::int64_t { none, causal, causal_from_the_end };

// The masks that cuDNN has: none, the diagonal from the first query and key, the diagonal to the last query and key.
std::optional<Mask> mask_of(const AttentionShape& s) {
  if (s.all_visible()) return Mask::none;
  if (s.first_q == s.first_k) return Mask::causal;
  if (s.first_q + s.q_rows == s.first_k + s.k_rows && s.q_rows <= s.k_rows) return Mask::causal_from_the_end;
  return std::nullopt;
}

enum Uid : std::int64_t { k_q = 1, k_k, k_v, k_out, k_lse, k_dout, k_dq, k_dk, k_dv };

using Key = std::array<std::int64_t, 24>;

Key key_of(const AttentionTensors& t, const AttentionShape& s, Mask mask) {
  const auto type = [](const Tensor& x) { return x ? static_cast<std::int64_t>(x.dtype) : -1; };
  return {s.n_sequences,
          s.query_heads,
          s.kv_heads,
          s.head_dim,
          s.q_rows,
          s.q_stride,
          s.k_rows,
          s.k_stride,
          s.window,
          std::bit_cast<std::int64_t>(s.scale),
          static_cast<std::int64_t>(mask),
          type(t.q),
          type(t.out),
          t.q.pitch,
          t.k.pitch,
          t.v.pitch,
          t.out.pitch,
          t.lse.pitch,
          type(t.dout),
          t.dout.pitch,
          t.dq.pitch,
          t.dk.pitch,
          t.dv.pitch,
          type(t.dq)};
}

struct Plan {
  std::unique_ptr<fe::graph::Graph> graph;  // null: cuDNN cannot do it
  std::size_t workspace = 0;
};

// A pitched [rows, heads * D] tensor as cuDNN's [sequence, head, row, channel].
fe::graph::Tensor_attributes described(const char* name, Uid uid, const Tensor& x, std::int64_t heads,
                                       std::int64_t rows, std::int64_t stride, const AttentionShape& s) {
  return fe::graph::Tensor_attributes()
      .set_name(name)
      .set_uid(uid)
      .set_data_type(cudnn_type(x.dtype))
      .set_dim({s.n_sequences, heads, rows, s.head_dim})
      .set_stride({stride * x.pitch, s.head_dim, x.pitch, 1});
}
fe::graph::Tensor_attributes described_lse(const Tensor& lse, const AttentionShape& s) {
  return fe::graph::Tensor_attributes()
      .set_name("lse")
      .set_uid(k_lse)
      .set_data_type(fe::DataType_t::FLOAT)
      .set_dim({s.n_sequences, s.query_heads, s.q_rows, 1})
      .set_stride({s.query_heads * lse.pitch, lse.pitch, 1, 1});
}

void set_output(const std::shared_ptr<fe::graph::Tensor_attributes>& tensor, const fe::graph::Tensor_attributes& like) {
  tensor->set_output(true).set_uid(like.get_uid()).set_data_type(like.get_data_type());
  tensor->set_dim(like.get_dim()).set_stride(like.get_stride());
}

template <class Attributes>
void set_mask(Attributes& attributes, const AttentionShape& s, Mask mask) {
  attributes.set_attn_scale(static_cast<float>(s.scale));
  if (mask == Mask::none) return;
  attributes.set_diagonal_alignment(mask == Mask::causal ? fe::DiagonalAlignment_t::TOP_LEFT
                                                         : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
  attributes.set_diagonal_band_right_bound(0);
  if (s.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(s.window));
}

std::unique_ptr<fe::graph::Graph> new_graph(DType dtype) {
  auto graph = std::make_unique<fe::graph::Graph>();
  graph->set_io_data_type(cudnn_type(dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

bool aligned(const Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0 &&
         x.pitch * static_cast<std::int64_t>(size_of(x.dtype)) % 16 == 0;
}

class CudnnAttention final : public LibraryAttention {
 public:
  explicit CudnnAttention(CudaBackend& backend) : backend_(backend) {
    check(cudnnCreate(&handle_));
    check(cudnnSetStream(handle_, backend.stream()));
  }
  ~CudnnAttention() override {
    plans_.clear();
    cudnnDestroy(handle_);
  }
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  std::string name() const override {
    const std::size_t v = cudnnGetVersion();
    return format("cuDNN %zu.%zu.%zu, own kernels for documents, offsets and fp32", v / 10000, v / 100 % 100, v % 100);
  }
  bool forward(const AttentionTensors& t, const AttentionShape& s) override;
  bool backward(const AttentionTensors& t, const AttentionShape& s, Into into) override;

 private:
  bool knows(const AttentionTensors& t, const AttentionShape& s) const;
  Plan& plan_for(const AttentionTensors& t, const AttentionShape& s, Mask mask);
  std::unique_ptr<fe::graph::Graph> forward_graph(const AttentionTensors& t, const AttentionShape& s, Mask mask) const;
  std::unique_ptr<fe::graph::Graph> backward_graph(const AttentionTensors& t, const AttentionShape& s, Mask mask) const;
  bool run(AttentionTensors t, const AttentionShape& s, const std::vector<StandIn>& stand_ins, Into into);

  CudaBackend& backend_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

bool CudnnAttention::knows(const AttentionTensors& t, const AttentionShape& s) const {
  if (t.q.dtype != DType::bf16 && t.q.dtype != DType::f16) return false;
  if (s.head_dim % 8 != 0 || s.head_dim > 256 || s.q_rows < 2 || s.k_rows < 2) return false;
  if (!mask_of(s)) return false;
  return aligned(t.q) && aligned(t.k) && aligned(t.v) && aligned(t.out);
}

std::unique_ptr<fe::graph::Graph> CudnnAttention::forward_graph(const AttentionTensors& t, const AttentionShape& s,
                                                                Mask mask) const {
  auto graph = new_graph(t.q.dtype);
  auto q = graph->tensor(described("q", k_q, t.q, s.query_heads, s.q_rows, s.q_stride, s));
  auto k = graph->tensor(described("k", k_k, t.k, s.kv_heads, s.k_rows, s.k_stride, s));
  auto v = graph->tensor(described("v", k_v, t.v, s.kv_heads, s.k_rows, s.k_stride, s));
  fe::graph::SDPA_attributes attributes;
  attributes.set_name("attention").set_generate_stats(true);
  set_mask(attributes, s, mask);
  auto [out, lse] = graph->sdpa(q, k, v, attributes);
  set_output(out, described("out", k_out, t.out, s.query_heads, s.q_rows, s.q_stride, s));
  set_output(lse, described_lse(t.lse, s));
  return graph;
}

std::unique_ptr<fe::graph::Graph> CudnnAttention::backward_graph(const AttentionTensors& t, const AttentionShape& s,
                                                                 Mask mask) const {
  auto graph = new_graph(t.q.dtype);
  auto q = graph->tensor(described("q", k_q, t.q, s.query_heads, s.q_rows, s.q_stride, s));
  auto k = graph->tensor(described("k", k_k, t.k, s.kv_heads, s.k_rows, s.k_stride, s));
  auto v = graph->tensor(described("v", k_v, t.v, s.kv_heads, s.k_rows, s.k_stride, s));
  auto out = graph->tensor(described("out", k_out, t.out, s.query_heads, s.q_rows, s.q_stride, s));
  auto dout = graph->tensor(described("dout", k_dout, t.dout, s.query_heads, s.q_rows, s.q_stride, s));
  auto lse = graph->tensor(described_lse(t.lse, s));
  fe::graph::SDPA_backward_attributes attributes;
  attributes.set_name("attention_backward").set_deterministic_algorithm(backend_.options().deterministic);
  set_mask(attributes, s, mask);
  auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, out, dout, lse, attributes);
  set_output(dq, described("dq", k_dq, t.dq, s.query_heads, s.q_rows, s.q_stride, s));
  set_output(dk, described("dk", k_dk, t.dk, s.kv_heads, s.k_rows, s.k_stride, s));
  set_output(dv, described("dv", k_dv, t.dv, s.kv_heads, s.k_rows, s.k_stride, s));
  return graph;
}

Plan& CudnnAttention::plan_for(const AttentionTensors& t, const AttentionShape& s, Mask mask) {
  const auto [found, is_new] = plans_.try_emplace(key_of(t, s, mask));
  Plan& plan = found->second;
  if (!is_new) return plan;
  auto graph = t.dout ? backward_graph(t, s, mask) : forward_graph(t, s, mask);
  fe::error_t built = graph->build(handle_, {fe::HeurMode_t::A});
  std::int64_t bytes = 0;
  if (built.is_bad() || graph->get_workspace_size(bytes).is_bad()) {
    log().warn(format("cuDNN declines an attention %s pass with head size %lld into %s, slower kernels take it: %s",
                      t.dout ? "backward" : "forward", static_cast<long long>(s.head_dim),
                      name_of(t.dout ? t.dq.dtype : t.out.dtype), built.get_message().c_str()));
    return plan;
  }
  plan.graph = std::move(graph);
  plan.workspace = static_cast<std::size_t>(bytes);
  return plan;
}

bool CudnnAttention::run(AttentionTensors t, const AttentionShape& s, const std::vector<StandIn>& stand_ins,
                         Into into) {
  std::size_t used = 256;  // an offset in scratch memory; not zero, which would read as an absent tensor
  for (const StandIn& x : stand_ins) used += x.put(t, used);
  const Tensor lse = t.lse;
  const bool packs_lse = t.dout && lse.pitch != s.q_rows;  // the backward pass wants its rows without gaps
  if (packs_lse) {
    t.lse = Tensor(reinterpret_cast<std::byte*>(used), DType::f32, {lse.rows(), s.q_rows});
    used += static_cast<std::size_t>(round_up(static_cast<std::int64_t>(t.lse.bytes()), 256));
  }
  Plan& plan = plan_for(t, s, *mask_of(s));
  if (!plan.graph) return false;
  std::byte* const scratch = backend_.scratch(used + plan.workspace);
  for (const StandIn& x : stand_ins) x.begin(t, scratch, backend_, s);
  if (packs_lse) {
    t.lse.data = scratch + reinterpret_cast<std::uintptr_t>(t.lse.data);
    backend_.copy(t.lse, lse);
  }
  std::unordered_map<std::int64_t, void*> memory{
      {k_q, t.q.data}, {k_k, t.k.data}, {k_v, t.v.data}, {k_out, t.out.data}, {k_lse, t.lse.data}};
  if (t.dout) memory.insert({{k_dout, t.dout.data}, {k_dq, t.dq.data}, {k_dk, t.dk.data}, {k_dv, t.dv.data}});
  check(plan.graph->execute(handle_, memory, scratch + used));
  for (const StandIn& x : stand_ins) x.end(t, backend_, s, into);
  return true;
}

// cuDNN is never asked for an f32 result: it takes some such requests and writes 16-bit values all the same. A partial
// output is rounded once to 16 bits on its way to f32; the merge of ring attention stays in f32, so that rounding does
// not grow with the number of parts.
bool CudnnAttention::forward(const AttentionTensors& t, const AttentionShape& s) {
  if (!knows(t, s)) return false;
  std::vector<StandIn> stand_ins;
  if (t.out.dtype != t.q.dtype)
    stand_ins.emplace_back(&AttentionTensors::out, t.out, t.q.dtype, Side::query, Use::output);
  return run(t, s, stand_ins, Into::replace);
}

bool CudnnAttention::backward(const AttentionTensors& t, const AttentionShape& s, Into into) {
  if (!knows(t, s)) return false;
  std::vector<StandIn> stand_ins;
  const auto stand_in = [&](Tensor AttentionTensors::*slot, Side side, Use use) {
    const Tensor& x = t.*slot;
    const bool adds = use == Use::output && into == Into::add;
    if (x.dtype != t.q.dtype || !aligned(x) || adds) stand_ins.emplace_back(slot, x, t.q.dtype, side, use);
  };
  stand_in(&AttentionTensors::out, Side::query, Use::input);
  stand_in(&AttentionTensors::dout, Side::query, Use::input);
  stand_in(&AttentionTensors::dq, Side::query, Use::output);
  stand_in(&AttentionTensors::dk, Side::key, Use::output);
  stand_in(&AttentionTensors::dv, Side::key, Use::output);
  return run(t, s, stand_ins, into);
}

}  // namespace

std::unique_ptr<LibraryAttention> make_library_attention(CudaBackend& backend) {
  return std::make_unique<CudnnAttention>(backend);
}

}  // namespace trireme
