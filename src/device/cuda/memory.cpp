#include <algorithm>
#include <cstring>

#include "check.h"
#include "cuda_backend.h"

namespace trireme {

PinnedRing::~PinnedRing() {
  for (Slot& slot : slots_) {
    if (slot.memory == nullptr) continue;
    cudaEventSynchronize(slot.used);
    cudaEventDestroy(slot.used);
    cudaFreeHost(slot.memory);
  }
}

PinnedRing::Slot& PinnedRing::next_slot() {
  Slot& slot = slots_[next_++ % slots_.size()];
  if (slot.memory == nullptr) {
    check(cudaHostAlloc(reinterpret_cast<void**>(&slot.memory), k_slot_bytes, cudaHostAllocDefault));
    check(cudaEventCreateWithFlags(&slot.used, cudaEventDisableTiming));
  } else {
    check(cudaEventSynchronize(slot.used));
  }
  return slot;
}

void PinnedRing::to_device(std::byte* dst, const std::byte* host, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(k_slot_bytes, bytes - done);
    Slot& slot = next_slot();
    std::memcpy(slot.memory, host + done, part);
    check(cudaMemcpyAsync(dst + done, slot.memory, part, cudaMemcpyHostToDevice, stream_));
    check(cudaEventRecord(slot.used, stream_));
    done += part;
  }
}

std::size_t CudaBackend::memory_bytes() const {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return free;
}

std::byte* CudaBackend::allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)));
  return static_cast<std::byte*>(memory);
}

void CudaBackend::release(std::byte* memory) noexcept {
  cudaFree(memory);
}

void CudaBackend::to_device(Tensor dst, const void* host) {
  require(dst.contiguous(), "to_device() copies into contiguous tensors only");
  ring_->to_device(dst.data, static_cast<const std::byte*>(host), dst.bytes());
}

void CudaBackend::to_host(void* host, Tensor src) {
  to_host_later(host, src);
  check(cudaStreamSynchronize(stream_));
}

void CudaBackend::to_host_later(void* pinned, Tensor src) {
  require(src.contiguous(), "to_host() copies from contiguous tensors only");
  if (src.count() == 0) return;
  check(cudaMemcpyAsync(pinned, src.data, src.bytes(), cudaMemcpyDeviceToHost, stream_));
}

std::byte* CudaBackend::allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, std::max<std::size_t>(bytes, 1), cudaHostAllocDefault));
  return static_cast<std::byte*>(memory);
}

void CudaBackend::release_pinned(std::byte* memory) noexcept {
  cudaFreeHost(memory);
}

}  // namespace trireme
