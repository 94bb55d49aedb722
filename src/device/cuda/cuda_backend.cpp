#include "cuda_backend.h"

#include <cstring>

#include "check.h"
#include "gemm.h"
#include "library_attention.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {
constexpr std::size_t k_first_scratch = std::size_t{64} << 20;  // also the workspace of cuBLASLt
constexpr std::size_t k_n_marks = 256;

int choose_device(int local_rank) {
  int n = 0;
  const cudaError_t found = cudaGetDeviceCount(&n);
  if (found != cudaSuccess || n == 0) {
    throw Error(Exit::rank, format("device.kind = \"cuda\" but no GPU is usable: %s; check nvidia-smi and "
                                   "CUDA_VISIBLE_DEVICES, or set device.kind = \"cpu\"",
                                   found == cudaSuccess ? "none is visible" : cudaGetErrorString(found)));
  }
  return local_rank % n;
}

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}
}  // namespace

CudaBackend::CudaBackend(int local_rank, const CudaOptions& options)
    : device_(choose_device(local_rank)), options_(options) {
  check(cudaSetDevice(device_));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device_));
  device_name_ = properties.name;
  device_bytes_ = properties.totalGlobalMem;
  n_multiprocessors_ = properties.multiProcessorCount;
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  scratch(k_first_scratch);
  ring_ = std::make_unique<PinnedRing>(stream_);
  for (std::size_t i = 0; i < k_n_marks; ++i) marks_.push_back(new_event());
  gemm_ = std::make_unique<Gemm>(*this, device_name_, k_first_scratch);
  library_attention_ = make_library_attention(*this);
}

CudaBackend::~CudaBackend() {
  // Return codes do not matter any more: the process ends or the device is already lost.
  cudaStreamSynchronize(stream_);
  library_attention_.reset();
  gemm_.reset();
  ring_.reset();
  for (cudaEvent_t event : marks_) cudaEventDestroy(event);
  cudaFree(scratch_);
  cudaStreamDestroy(stream_);
}

std::byte* CudaBackend::scratch(std::size_t bytes) {
  if (bytes <= scratch_bytes_) return scratch_;
  require(scratch_ == nullptr || !capturing(),
          "scratch memory cannot grow inside a CUDA graph: run the step once before");
  check(cudaStreamSynchronize(stream_));
  check(cudaFree(scratch_));
  scratch_ = nullptr;
  scratch_bytes_ = 0;
  const auto rounded = static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), 1 << 21));
  check(cudaMalloc(reinterpret_cast<void**>(&scratch_), rounded));
  scratch_bytes_ = rounded;
  log().debug("GPU scratch memory: " + bytes_text(static_cast<double>(rounded)));
  return scratch_;
}

bool CudaBackend::capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream_, &status));
  return status != cudaStreamCaptureStatusNone;
}

void CudaBackend::hand_over(cudaStream_t signalling, cudaStream_t waiting, cudaEvent_t event) const {
  check(cudaEventRecord(event, signalling));
  check(cudaStreamWaitEvent(waiting, event));
}

std::string CudaBackend::describe() const {
  const std::string own = "own kernels";
  return format("%s (%s), GPU %d, %s, attention: %s%s", device_name_.c_str(),
                bytes_text(static_cast<double>(device_bytes_)).c_str(), device_, gemm_->describe().c_str(),
                library_attention_ ? library_attention_->name().c_str() : own.c_str(),
                options_.deterministic ? ", deterministic" : "");
}

std::int64_t CudaBackend::mark() {
  check(cudaEventRecord(marks_[static_cast<std::size_t>(next_mark_) % k_n_marks], stream_));
  return next_mark_++;
}

// The event of an old mark may have been recorded again since: waiting then lasts longer, never too short.
void CudaBackend::wait(std::int64_t mark) {
  require(mark >= 0 && mark < next_mark_, "wait() needs a value of mark()");
  check(cudaEventSynchronize(marks_[static_cast<std::size_t>(mark) % k_n_marks]));
}

void CudaBackend::synchronize() {
  check(cudaStreamSynchronize(stream_));
}

std::unique_ptr<Backend> make_cuda_backend(int local_rank, const CudaOptions& options) {
  return std::make_unique<CudaBackend>(local_rank, options);
}

int cuda_device_count() {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

}  // namespace trireme
