#pragma once
// Rows read ahead of their use, through shared memory: registers hold one row, so without this the memory idles while
// a block adds up the row it has. Each thread reads only what it asked for itself, so no barrier is needed.

#include <cuda_pipeline_primitives.h>

#include "kernels.cuh"

namespace trireme {

// P packs of 16 bytes per thread and row, `slots` rows at a time of which all but one are ahead. Per row: fetch() what
// comes slots - 1 rows later (or nothing), close(), then take() the row itself.
template <class T, int P, int slots>
struct Ahead {
  using Access = Pack<T, k_pack<T>>;
  Access* mine;
  int pitch;  // threads of the block

  static constexpr std::size_t bytes(std::int64_t threads) { return sizeof(Access) * P * slots * threads; }

  __device__ Ahead(void* memory, int thread, int threads)
      : mine(static_cast<Access*>(memory) + thread), pitch(threads) {}
  __device__ Access* at(int slot, int p) const { return mine + (slot * P + p) * pitch; }
  __device__ void fetch(int slot, int p, const T* from) const {
    __pipeline_memcpy_async(at(slot, p), from, sizeof(Access));
  }
  // Ends the fetches of one row and waits for the oldest row on its way.
  __device__ void close() const {
    __pipeline_commit();
    __pipeline_wait_prior(slots - 1);
  }
  __device__ void close_first() const { __pipeline_commit(); }
  __device__ Access take(int slot, int p) const { return *at(slot, p); }
};

// Lets `kernel` have `bytes` of dynamic shared memory.
template <class Kernel>
void allow_shared(Kernel* kernel, std::size_t bytes) {
  if (bytes > std::size_t{32} << 10) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  }
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
}

}  // namespace trireme
