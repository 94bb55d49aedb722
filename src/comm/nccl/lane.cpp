#include "lane.h"

#include <exception>

#include "../arguments.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::u8:
      return ncclUint8;
    default:
      require(false, std::string("NCCL does not add up tensors of ") + name_of(dtype));
      return ncclUint8;
  }
}

// Types that are only moved, not summed, travel as bytes.
struct Bytes {
  std::size_t count;
  ncclDataType_t type;
};
Bytes moved(const Tensor& x) {
  return {x.bytes(), ncclUint8};
}

}  // namespace

void check(ncclResult_t code, Where where) {
  if (code == ncclSuccess || code == ncclInProgress) return;
  std::string text = format("NCCL: %s in %s, %s:%d", ncclGetErrorString(code), where.function, where.file, where.line);
  const char* const last = ncclGetLastError(nullptr);
  if (last != nullptr && *last != '\0') text += std::string(": ") + last;
  if (code == ncclInvalidUsage) text += "; when several ranks share one GPU set device.comm = \"mpi\"";
  throw Error(Exit::rank, text);
}

Lane::Lane(const ncclUniqueId& id, int rank, int size, cudaStream_t stream)
    : rank_(rank), size_(size), stream_(stream), exceptions_(std::uncaught_exceptions()) {
  check(ncclCommInitRank(&comm_, size, id, rank));
}

// While an exception unwinds other ranks may be gone: abort is local. Otherwise all ranks come here, and the memory
// that they share is let go in order.
Lane::~Lane() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    ncclCommAbort(comm_);
  } else {
    ncclCommDestroy(comm_);
  }
}

void Lane::poll() const {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state));
  check(state);
}

void Lane::all_reduce(Tensor x, Reduce op) {
  require_contiguous(x);
  if (x.count() == 0) return;
  poll();
  const ncclRedOp_t nccl_op = op == Reduce::sum ? ncclSum : ncclMax;
  check(
      ncclAllReduce(x.data, x.data, static_cast<std::size_t>(x.count()), nccl_type(x.dtype), nccl_op, comm_, stream_));
}

void Lane::all_gather(Tensor all, Tensor mine) {
  require_parts(all, mine, size_);
  if (all.count() == 0) return;
  const Bytes part = moved(mine);
  check(ncclAllGather(mine.data, all.data, part.count, part.type, comm_, stream_));
}

void Lane::reduce_scatter(Tensor mine, Tensor all) {
  require_parts(all, mine, size_);
  if (all.count() == 0) return;
  poll();
  check(ncclReduceScatter(all.data, mine.data, static_cast<std::size_t>(mine.count()), nccl_type(mine.dtype), ncclSum,
                          comm_, stream_));
}

void Lane::broadcast(Tensor x, int root) {
  require_contiguous(x);
  if (x.count() == 0) return;
  const Bytes whole = moved(x);
  check(ncclBroadcast(x.data, x.data, whole.count, whole.type, root, comm_, stream_));
}

void Lane::shift(Tensor from_left, Tensor to_right) {
  require_pair(from_left, to_right);
  if (to_right.count() == 0) return;
  check(ncclGroupStart());
  send(to_right, (rank_ + 1) % size_);
  recv(from_left, (rank_ + size_ - 1) % size_);
  check(ncclGroupEnd());
}

void Lane::send(Tensor x, int to) {
  require_contiguous(x);
  require(to != rank_, "a rank sends to itself");
  if (x.count() == 0) return;
  const Bytes whole = moved(x);
  check(ncclSend(x.data, whole.count, whole.type, to, comm_, stream_));
}

void Lane::recv(Tensor x, int from) {
  require_contiguous(x);
  require(from != rank_, "a rank receives from itself");
  if (x.count() == 0) return;
  const Bytes whole = moved(x);
  check(ncclRecv(x.data, whole.count, whole.type, from, comm_, stream_));
}

void Lane::barrier() {
  require(false, "barrier() inside background(): nothing there may wait");
}

Ticket Lane::background(const std::function<void(Communicator&)>&) {
  require(false, "background() inside background()");
  return {};
}

std::unique_ptr<Communicator> Lane::split(int, int) {
  require(false, "split() inside background(): it belongs to start-up");
  return nullptr;
}

}  // namespace trireme
