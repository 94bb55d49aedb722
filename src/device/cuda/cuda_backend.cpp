#include "cuda_backend.h"

#include <nvtx3/nvToolsExt.h>
#include <cstdlib>
#include <cstring>

#include "check.h"
#include "gemm.h"
#include "library_attention.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {
constexpr std::size_t k_first_scratch = std::size_t{64} << 20;  // also the workspace of cuBLASLt
constexpr std::int64_t k_epoch_marks = Backend::k_kept_marks, k_n_marks = 2 * k_epoch_marks;

// Each communicator has a stream of its own. Streams that share a hardware queue wait for each other, and a receive
// may then wait for a send behind it: ask for the most queues there are, unless the user has chosen. Read by the driver
// when the process first touches a device.
void ask_for_queues() {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int choose_device(int local_rank) {
  ask_for_queues();
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
  check(cudaEventCreate(&event));
  return event;
}

double seconds_between(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  return 1e-3 * static_cast<double>(milliseconds);
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
  shared_per_block_ = properties.sharedMemPerBlockOptin;
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  scratch(k_first_scratch);
  ring_ = std::make_unique<PinnedRing>(stream_);
  for (std::int64_t i = 0; i < k_n_marks; ++i) marks_.push_back(new_event());
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
  // The first mark of an epoch takes the event of the epoch before the last.
  if (next_mark_ % k_epoch_marks == 0 && next_mark_ >= k_n_marks) {
    const std::int64_t last = next_mark_ / k_epoch_marks - 1;
    check(cudaEventSynchronize(event_of(last * k_epoch_marks)));
    settle_epoch(last);
  }
  check(cudaEventRecord(event_of(next_mark_), stream_));
  return next_mark_++;
}

void CudaBackend::settle_epoch(std::int64_t epoch) {
  for (; settled_epoch_ < epoch; ++settled_epoch_) {
    const std::int64_t first = settled_epoch_ * k_epoch_marks;
    epoch_seconds_ += seconds_between(event_of(first), event_of(first + k_epoch_marks));
  }
}

double CudaBackend::time_of(std::int64_t mark) {
  require(mark >= 0 && mark < next_mark_ && mark >= next_mark_ - k_epoch_marks,
          "time_of() needs one of the marks that are kept");
  const std::int64_t epoch = mark / k_epoch_marks;
  if (epoch > settled_epoch_) settle_epoch(epoch);
  const std::int64_t first = settled_epoch_ * k_epoch_marks;
  if (epoch == settled_epoch_) return epoch_seconds_ + seconds_between(event_of(first), event_of(mark));
  return epoch_seconds_ - seconds_between(event_of(mark), event_of(first));
}

// The event of an old mark may have been recorded again since: waiting then lasts longer, never too short.
void CudaBackend::wait(std::int64_t mark) {
  require(mark >= 0 && mark < next_mark_, "wait() needs a value of mark()");
  check(cudaEventSynchronize(event_of(mark)));
}

void CudaBackend::synchronize() {
  check(cudaStreamSynchronize(stream_));
}

void CudaBackend::enter_range(const char* name) {
  nvtxRangePushA(name);
}

void CudaBackend::leave_range() {
  nvtxRangePop();
}

std::unique_ptr<Backend> make_cuda_backend(int local_rank, const CudaOptions& options) {
  return std::make_unique<CudaBackend>(local_rank, options);
}

int cuda_device_count() {
  ask_for_queues();
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

}  // namespace trireme
