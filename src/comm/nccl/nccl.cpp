// The NCCL communicator: one lane on the compute stream, one on a stream of its own for background().

#include "trireme/comm/nccl.h"

#include <array>
#include <cstring>

#include "device/cuda/check.h"
#include "device/cuda/cuda_backend.h"
#include "lane.h"

namespace trireme {

namespace {

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::unique_ptr<Communicator> control, CudaBackend& backend);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  int rank() const override { return control_->rank(); }
  int size() const override { return control_->size(); }
  void all_reduce(Tensor x, Reduce op) override { main_->all_reduce(x, op); }
  void all_gather(Tensor all, Tensor mine) override { main_->all_gather(all, mine); }
  void reduce_scatter(Tensor mine, Tensor all) override { main_->reduce_scatter(mine, all); }
  void broadcast(Tensor x, int root) override { main_->broadcast(x, root); }
  void shift(Tensor from_left, Tensor to_right) override { main_->shift(from_left, to_right); }
  void send(Tensor x, int to) override { main_->send(x, to); }
  void recv(Tensor x, int from) override { main_->recv(x, from); }
  void barrier() override;
  Ticket background(const std::function<void(Communicator&)>& work) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  const Communicator& control() const override { return control_->control(); }

 private:
  std::array<ncclUniqueId, 2> shared_ids();
  void connect();
  cudaEvent_t next_event();

  std::unique_ptr<Communicator> control_;
  CudaBackend& backend_;
  cudaStream_t side_stream_ = nullptr;
  std::array<cudaEvent_t, 64> events_{};
  std::size_t next_event_ = 0;
  std::unique_ptr<Lane> main_, side_;
};

NcclCommunicator::NcclCommunicator(std::unique_ptr<Communicator> control, CudaBackend& backend)
    : control_(std::move(control)), backend_(backend) {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  // Communication first: its few blocks should not queue behind a whole matrix product.
  check(cudaStreamCreateWithPriority(&side_stream_, cudaStreamNonBlocking, greatest));
  for (cudaEvent_t& event : events_) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  const auto ids = shared_ids();
  main_ = std::make_unique<Lane>(ids[0], rank(), size(), backend.stream());
  side_ = std::make_unique<Lane>(ids[1], rank(), size(), side_stream_);
  connect();
}

NcclCommunicator::~NcclCommunicator() {
  side_.reset();
  main_.reset();
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  cudaStreamDestroy(side_stream_);
}

// Rank 0 makes the ids; they travel in device memory because that is what `control` carries.
std::array<ncclUniqueId, 2> NcclCommunicator::shared_ids() {
  std::array<ncclUniqueId, 2> ids{};
  if (rank() == 0)
    for (ncclUniqueId& id : ids) check(ncclGetUniqueId(&id));
  std::byte* const memory = backend_.allocate(sizeof ids);
  const Tensor on_device(memory, DType::u8, {static_cast<std::int64_t>(sizeof ids)});
  backend_.to_device(on_device, ids.data());
  control_->broadcast(on_device, 0);
  backend_.to_host(ids.data(), on_device);
  backend_.release(memory);
  return ids;
}

// NCCL connects to a neighbour at the first message, and the host waits for it there. Two stages of a pipeline would
// wait for each other: the first messages are sent here, where all ranks do the same.
void NcclCommunicator::connect() {
  std::byte* const memory = backend_.allocate(2 * sizeof(float));
  const Tensor both(memory, DType::f32, {2});
  for (Lane* lane : {main_.get(), side_.get()}) {
    lane->all_reduce(both, Reduce::sum);
    lane->shift(both.slice_rows(0, 1), both.slice_rows(1, 1));
    if (lane == side_.get()) check(cudaStreamSynchronize(side_stream_));
    backend_.synchronize();
  }
  backend_.release(memory);
}

// An event comes round again after 64 uses: a ticket kept that long waits longer than it must, never too short.
cudaEvent_t NcclCommunicator::next_event() {
  return events_[next_event_++ % events_.size()];
}

void NcclCommunicator::barrier() {
  main_->poll();
  side_->poll();
  check(cudaStreamSynchronize(side_stream_));
  backend_.synchronize();
  control_->barrier();
}

Ticket NcclCommunicator::background(const std::function<void(Communicator&)>& work) {
  side_->poll();
  backend_.hand_over(backend_.stream(), side_stream_, next_event());
  check(ncclGroupStart());
  try {
    work(*side_);
  } catch (...) {
    ncclGroupEnd();  // an open group would swallow every later call
    throw;
  }
  check(ncclGroupEnd());
  const cudaEvent_t done = next_event();
  check(cudaEventRecord(done, side_stream_));
  return {[this, done] { check(cudaStreamWaitEvent(backend_.stream(), done)); }};
}

std::unique_ptr<Communicator> NcclCommunicator::split(int color, int key) {
  return make_nccl_communicator(control_->split(color, key), backend_);
}

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::unique_ptr<Communicator> control, Backend& cuda_backend) {
  auto* const cuda = dynamic_cast<CudaBackend*>(&cuda_backend);
  if (cuda == nullptr) {
    throw Error(Exit::usage,
                "device.comm = \"nccl\" needs device.kind = \"cuda\", but the device is " + cuda_backend.describe());
  }
  if (control->size() == 1) return control;  // does by itself what one rank needs
  return std::make_unique<NcclCommunicator>(std::move(control), *cuda);
}

}  // namespace trireme
