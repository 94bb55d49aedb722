#include "trireme/device/arena.h"

#include <algorithm>
#include <utility>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

Arena::Arena(Backend& backend, std::string name, std::size_t capacity)
    : backend_(&backend), name_(std::move(name)), base_(backend.allocate(capacity)), capacity_(capacity) {}

Arena::Arena(Arena&& other) noexcept {
  *this = std::move(other);
}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(name_, other.name_);
  std::swap(base_, other.base_);
  std::swap(capacity_, other.capacity_);
  std::swap(used_, other.used_);
  std::swap(peak_, other.peak_);
  return *this;
}

Arena::~Arena() {
  if (backend_ != nullptr) backend_->release(base_);
}

Tensor Arena::take(DType dtype, Shape shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(dtype);
  const auto room = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), k_alignment));
  if (room > capacity_ - used_) {
    throw Error(Exit::usage, "arena '" + name_ + "' is full: " + bytes_text(static_cast<double>(used_)) + " of " +
                                 bytes_text(static_cast<double>(capacity_)) + " are taken and a " + name_of(dtype) +
                                 " " + to_string(shape) + " of " + bytes_text(static_cast<double>(bytes)) +
                                 " does not fit; plan the sizes with the layers that will run");
  }
  const Tensor tensor(base_ + used_, dtype, shape);
  used_ += room;
  peak_ = std::max(peak_, used_);
  return tensor;
}

void Arena::rewind(std::size_t mark) {
  require(mark <= used_, "an arena is rewound to a mark above its top");
  used_ = mark;
}

}  // namespace trireme
