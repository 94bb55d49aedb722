#include "mpi_staging.h"

#include <cstring>

#include "trireme/device/backend.h"

namespace trireme {

PinnedPool::~PinnedPool() {
  for (const auto& buffer : buffers_) {
    if (!buffer->leased) backend_.release_pinned(buffer->data);
  }
}

PinnedPool::Buffer& PinnedPool::lease(std::size_t bytes) {
  Buffer* best = nullptr;  // the smallest that fits, else the largest
  for (const auto& buffer : buffers_) {
    if (buffer->leased) continue;
    const bool better =
        best == nullptr ||
        (best->bytes < bytes ? buffer->bytes > best->bytes : buffer->bytes >= bytes && buffer->bytes < best->bytes);
    if (better) best = buffer.get();
  }
  if (best == nullptr) best = buffers_.emplace_back(std::make_unique<Buffer>()).get();
  if (best->bytes < bytes) {
    if (best->data != nullptr) backend_.release_pinned(best->data);
    *best = Buffer{};
    best->data = backend_.allocate_pinned(bytes);
    best->bytes = bytes;
  }
  best->leased = true;
  return *best;
}

std::byte* Flight::empty(const Tensor& x) {
  if (memory_ == Memory::host || x.count() == 0) return x.data;
  return buffers_.emplace_back(&pool_.lease(x.bytes()))->data;
}

std::byte* Flight::filled(const Tensor& x) {
  std::byte* host = empty(x);
  if (host != x.data) backend_.to_host(host, x);
  return host;
}

void Flight::deliver(const Tensor& x, const std::byte* from) {
  if (from != x.data) deliveries_.push_back({x, from});
}

void Flight::land() {
  calls.finish();
  for (const Delivery& delivery : deliveries_) {
    if (memory_ == Memory::staged) backend_.to_device(delivery.x, delivery.from);
    if (memory_ == Memory::host) std::memmove(delivery.x.data, delivery.from, delivery.x.bytes());
  }
  for (PinnedPool::Buffer* buffer : buffers_) buffer->leased = false;
  deliveries_.clear();
  buffers_.clear();
  idle_ = true;
}

}  // namespace trireme
