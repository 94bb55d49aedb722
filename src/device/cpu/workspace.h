#pragma once
// Memory that the CPU backend keeps for itself between calls. It grows to the largest request of each slot and never
// shrinks, so that nothing is allocated after the first training step.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "trireme/base/check.h"

namespace trireme::cpu {

enum class Slot : std::size_t { gemm_a, gemm_b, gemm_c, attention, order, partial, count };

class Workspace {
 public:
  // `count` elements, not initialised; valid until the slot is asked for again.
  template <class T>
  T* get(Slot slot, std::int64_t count) {
    return reinterpret_cast<T*>(
        grow(buffers_[static_cast<std::size_t>(slot)], static_cast<std::size_t>(count) * sizeof(T)));
  }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const Buffer& buffer : buffers_) sum += buffer.bytes;
    return sum;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Buffer {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t bytes = 0;
  };

  static std::byte* grow(Buffer& buffer, std::size_t bytes) {
    if (bytes <= buffer.bytes) return buffer.memory.get();
    const auto rounded = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), 4096));
    buffer.memory.reset();
    buffer.memory.reset(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)));
    if (buffer.memory == nullptr) throw std::bad_alloc();
    buffer.bytes = rounded;
    return buffer.memory.get();
  }

  std::array<Buffer, static_cast<std::size_t>(Slot::count)> buffers_;
};

}  // namespace trireme::cpu
