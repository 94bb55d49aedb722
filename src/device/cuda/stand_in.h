#pragma once
// 16-bit memory in place of an attention tensor that a library cannot read or write as it is: f32, or to be added to.
// It lives in scratch memory for one call and touches only the rows of the call's sequences.

#include "cuda_backend.h"
#include "library_attention.h"
#include "trireme/base/check.h"

namespace trireme {

enum class Side : std::uint8_t { query, key };
enum class Use : std::uint8_t { input, output };

class StandIn {
 public:
  StandIn(Tensor AttentionTensors::*slot, const Tensor& original, DType dtype, Side side, Use use)
      : slot_(slot), original_(original), dtype_(dtype), side_(side), use_(use) {}

  // Puts a tensor at this offset of scratch memory into its slot and returns the bytes it takes.
  std::size_t put(AttentionTensors& t, std::size_t offset) const {
    const Tensor made(reinterpret_cast<std::byte*>(offset), dtype_, {original_.rows(), original_.columns()});
    t.*slot_ = made;
    return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(made.bytes()), 256));
  }
  void begin(AttentionTensors& t, std::byte* scratch, CudaBackend& backend, const AttentionShape& s) const {
    (t.*slot_).data = scratch + reinterpret_cast<std::uintptr_t>((t.*slot_).data);
    if (use_ == Use::input)
      each_sequence(s, t.*slot_, [&](Tensor mine, Tensor original) { backend.copy(mine, original); });
  }
  void end(AttentionTensors& t, CudaBackend& backend, const AttentionShape& s, Into into) const {
    if (use_ == Use::input) return;
    each_sequence(s, t.*slot_, [&](Tensor mine, Tensor original) {
      if (into == Into::add) return backend.add(original, mine);
      backend.copy(original, mine);
    });
  }

 private:
  // Rows between the sequences belong to others and stay as they are.
  template <class F>
  void each_sequence(const AttentionShape& s, const Tensor& mine, F&& f) const {
    const std::int64_t rows = side_ == Side::query ? s.q_rows : s.k_rows;
    const std::int64_t stride = side_ == Side::query ? s.q_stride : s.k_stride;
    if (rows == stride)
      return f(mine.slice_rows(0, s.n_sequences * rows), original_.slice_rows(0, s.n_sequences * rows));
    for (std::int64_t b = 0; b < s.n_sequences; ++b)
      f(mine.slice_rows(b * stride, rows), original_.slice_rows(b * stride, rows));
  }

  Tensor AttentionTensors::*slot_;
  Tensor original_;
  DType dtype_;
  Side side_;
  Use use_;
};

}  // namespace trireme
