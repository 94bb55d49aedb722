#pragma once
// One slab with bump allocation and stack discipline. Three lifetimes use it: persistent (parameters, gradients,
// optimizer), saved (one slot per micro-batch in flight) and scratch. Sizes come from a run on PlanBackend.

#include <string>

#include "trireme/device/backend.h"
#include "trireme/device/tensor.h"

namespace trireme {

inline constexpr std::int64_t k_alignment = 256;  // bytes; every take() starts on it

class Arena {
 public:
  Arena() = default;
  Arena(Backend& backend, std::string name, std::size_t capacity);
  Arena(Arena&&) noexcept;
  Arena& operator=(Arena&&) noexcept;
  ~Arena();

  // Throws Error naming the arena, its capacity and the request when it does not fit.
  Tensor take(DType dtype, Shape shape);
  std::size_t mark() const { return used_; }
  void rewind(std::size_t mark);
  std::size_t peak() const { return peak_; }
  std::size_t capacity() const { return capacity_; }
  const std::string& name() const { return name_; }

 private:
  Backend* backend_ = nullptr;
  std::string name_;
  std::byte* base_ = nullptr;
  std::size_t capacity_ = 0, used_ = 0, peak_ = 0;
};

// Everything taken since construction is given back at the end of the scope.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~ArenaScope() { arena_.rewind(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  std::size_t mark_;
};

}  // namespace trireme
