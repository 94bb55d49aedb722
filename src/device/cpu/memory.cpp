#include <cblas.h>
#include <chrono>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "blas.h"
#include "cpu_backend.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/device/arena.h"

namespace trireme::cpu {

namespace {

std::byte* aligned(std::size_t bytes) {
  const auto rounded = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes) + 1, k_alignment));
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(k_alignment), rounded));
  if (memory == nullptr) {
    throw Error(Exit::failed, "this machine has no " + bytes_text(static_cast<double>(bytes)) +
                                  " of memory in one piece: use more ranks or a smaller batch.micro");
  }
  return memory;
}

// f(host offset, device address, bytes) for every contiguous run of t.
template <class F>
void for_runs(const Tensor& t, const F& f) {
  const std::int64_t rows = t.contiguous() ? 1 : t.rows();
  const std::int64_t columns = t.contiguous() ? t.count() : t.columns();
  const std::size_t size = size_of(t.dtype);
  if (columns == 0) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    f(static_cast<std::size_t>(r * columns) * size, t.data + static_cast<std::size_t>(r * t.pitch) * size,
      static_cast<std::size_t>(columns) * size);
  }
}

}  // namespace

CpuBackend::CpuBackend(int n_threads) : n_threads_(n_threads) {
  require(n_threads >= 1, "the CPU backend needs at least one thread");
  choose_blas_kernels();
  openblas_set_num_threads(n_threads);
}

std::string CpuBackend::describe() const {
  return format("CPU, %d thread%s, OpenBLAS kernels for %s", n_threads_, n_threads_ == 1 ? "" : "s",
                openblas_get_corename());
}

// What Linux says a new program could use; other processes of this node are not asked.
std::size_t CpuBackend::memory_bytes() const {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  std::size_t kibibytes = 0;
  while (file >> key >> kibibytes) {
    if (key == "MemAvailable:") return kibibytes * 1024;
    std::getline(file, unit);
  }
  return 0;
}

std::byte* CpuBackend::allocate(std::size_t bytes) {
  return aligned(bytes);
}
void CpuBackend::release(std::byte* memory) noexcept {
  std::free(memory);
}
std::byte* CpuBackend::allocate_pinned(std::size_t bytes) {
  return aligned(bytes);
}
void CpuBackend::release_pinned(std::byte* memory) noexcept {
  std::free(memory);
}

void CpuBackend::to_device(Tensor dst, const void* host) {
  for_runs(dst, [&](std::size_t offset, std::byte* to, std::size_t bytes) {
    std::memcpy(to, static_cast<const std::byte*>(host) + offset, bytes);
  });
}

void CpuBackend::to_host(void* host, Tensor src) {
  for_runs(src, [&](std::size_t offset, const std::byte* from, std::size_t bytes) {
    std::memcpy(static_cast<std::byte*>(host) + offset, from, bytes);
  });
}

void CpuBackend::to_host_later(void* pinned, Tensor src) {
  to_host(pinned, src);
}

// The CPU is done with everything before the call: a mark is the present.
std::int64_t CpuBackend::mark() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  mark_times_[static_cast<std::size_t>(n_marks_) % mark_times_.size()] = std::chrono::duration<double>(now).count();
  return n_marks_++;
}

double CpuBackend::time_of(std::int64_t mark) {
  const auto kept = static_cast<std::int64_t>(mark_times_.size());
  require(mark < n_marks_ && mark >= n_marks_ - kept, "the times of old marks are forgotten");
  return mark_times_[static_cast<std::size_t>(mark % kept)];
}

}  // namespace trireme::cpu

namespace trireme {

std::unique_ptr<Backend> make_cpu_backend(int n_threads) {
  return std::make_unique<cpu::CpuBackend>(n_threads);
}

}  // namespace trireme
