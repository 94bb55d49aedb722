#include "mpi_communicator.h"

#include <algorithm>

#include "arguments.h"
#include "trireme/base/check.h"
#include "trireme/device/backend.h"

namespace trireme {

namespace {

// Calls f(first byte, count) for pieces of x of at most max_bytes, at least one element each; never for an empty x.
void in_pieces(const Tensor& x, std::int64_t max_bytes, const std::function<void(std::int64_t, int)>& f) {
  const auto element = static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t piece = std::max<std::int64_t>(max_bytes / element, 1);
  for (std::int64_t first = 0; first < x.count(); first += piece) {
    f(first * element, static_cast<int>(std::min(piece, x.count() - first)));
  }
}

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
  return returning_errors(copy);
}

}  // namespace

MpiGround MpiGround::on(MPI_Comm other) const {
  MpiGround ground = *this;
  ground.comm = returning_errors(other);
  check_mpi(MPI_Comm_rank(other, &ground.rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(other, &ground.size), "MPI_Comm_size");
  return ground;
}

// --- operations

void MpiOperations::all_reduce(Tensor x, Reduce op) {
  require_contiguous(x);
  std::byte* host = flight().filled(x);
  in_pieces(x, ground_.max_reduced, [&](std::int64_t first, int n) {
    calls().all_reduce(host + first, n, mpi_type(x.dtype), ground_.reductions.of(op, x.dtype));
  });
  flight().deliver(x, host);
  done();
}

void MpiOperations::all_gather(Tensor all, Tensor mine) {
  require_parts(all, mine, ground_.size);
  if (all.count() == 0) return;
  std::byte* host = flight().empty(all);
  std::byte* own = host + static_cast<std::size_t>(ground_.rank) * mine.bytes();
  const std::byte* part = host == all.data ? mine.data : own;
  if (host != all.data) ground_.backend->to_host(own, mine);
  if (static_cast<std::int64_t>(all.bytes()) <= ground_.max_bytes) {
    calls().all_gather(host, part == own ? nullptr : part, static_cast<int>(mine.count()), mpi_type(all.dtype));
  } else {
    if (part != own) std::copy_n(part, mine.bytes(), own);
    all_gather_in_pieces(host, mine);
  }
  flight().deliver(all, host);
  done();
}

// Every rank broadcasts its part: the same volume on the wire, with counts that fit.
void MpiOperations::all_gather_in_pieces(std::byte* all, const Tensor& part) {
  for (int root = 0; root < ground_.size; ++root) {
    std::byte* its = all + static_cast<std::size_t>(root) * part.bytes();
    in_pieces(part, ground_.max_bytes,
              [&](std::int64_t first, int n) { calls().broadcast(its + first, n, mpi_type(part.dtype), root); });
  }
}

// MPI puts an in-place result at the beginning of the memory; it is delivered to its slice from there.
void MpiOperations::reduce_scatter(Tensor mine, Tensor all) {
  require_parts(all, mine, ground_.size);
  if (all.count() == 0) return;
  std::byte* host = flight().filled(all);
  const bool in_place = host != all.data || is_own_part(all, mine, ground_.rank);
  const MPI_Op sum = ground_.reductions.of(Reduce::sum, all.dtype);
  std::byte* result = in_place ? host : mine.data;
  if (static_cast<std::int64_t>(all.bytes()) <= ground_.max_reduced) {
    calls().reduce_scatter(result, in_place ? nullptr : host, static_cast<int>(mine.count()), mpi_type(all.dtype), sum);
  } else {
    if (in_place) result = host + static_cast<std::size_t>(ground_.rank) * mine.bytes();
    reduce_scatter_in_pieces(result, host, mine);
  }
  flight().deliver(mine, result);
  done();
}

// Every rank collects its part, the mirror image of all_gather_in_pieces.
void MpiOperations::reduce_scatter_in_pieces(std::byte* mine, const std::byte* all, const Tensor& part) {
  const MPI_Op sum = ground_.reductions.of(Reduce::sum, part.dtype);
  for (int root = 0; root < ground_.size; ++root) {
    const std::byte* its = all + static_cast<std::size_t>(root) * part.bytes();
    in_pieces(part, ground_.max_reduced, [&](std::int64_t first, int n) {
      calls().reduce(mine + first, its + first, n, mpi_type(part.dtype), sum, root);
    });
  }
}

void MpiOperations::broadcast(Tensor x, int root) {
  require_contiguous(x);
  const bool speaks = root == ground_.rank;
  std::byte* host = speaks ? flight().filled(x) : flight().empty(x);
  in_pieces(x, ground_.max_bytes,
            [&](std::int64_t first, int n) { calls().broadcast(host + first, n, mpi_type(x.dtype), root); });
  if (!speaks) flight().deliver(x, host);
  done();
}

// Always started: a ring of blocking sends could wait for itself.
void MpiOperations::shift(Tensor from_left, Tensor to_right) {
  require_pair(from_left, to_right);
  const int left = (ground_.rank + ground_.size - 1) % ground_.size, right = (ground_.rank + 1) % ground_.size;
  const std::byte* out = flight().filled(to_right);
  std::byte* in = flight().empty(from_left);
  in_pieces(to_right, ground_.max_bytes, [&](std::int64_t first, int n) {
    flight().calls.recv(in + first, n, mpi_type(from_left.dtype), left);
    flight().calls.send(out + first, n, mpi_type(to_right.dtype), right);
  });
  flight().deliver(from_left, in);
  done();
}

void MpiOperations::send(Tensor x, int to) {
  require_contiguous(x);
  require(to != ground_.rank, "send to oneself");
  const std::byte* host = flight().filled(x);
  in_pieces(x, ground_.max_bytes,
            [&](std::int64_t first, int n) { calls().send(host + first, n, mpi_type(x.dtype), to); });
  done();
}

void MpiOperations::recv(Tensor x, int from) {
  require_contiguous(x);
  require(from != ground_.rank, "recv from oneself");
  std::byte* host = flight().empty(x);
  in_pieces(x, ground_.max_bytes,
            [&](std::int64_t first, int n) { calls().recv(host + first, n, mpi_type(x.dtype), from); });
  flight().deliver(x, host);
  done();
}

// --- the lane

Ticket MpiLane::run(const std::function<void(Communicator&)>& work) {
  require(current_ == nullptr, "background work started inside background work");
  const auto free = std::find_if(flights_.begin(), flights_.end(), [](const auto& flight) { return flight->idle(); });
  if (free == flights_.end()) {
    flights_.push_back(std::make_unique<Flight>(ground_.comm, turns_, *ground_.backend, ground_.memory, pool_));
    current_ = flights_.back().get();
  } else {
    current_ = free->get();
  }
  current_->take_off();
  work(*this);
  Flight* flight = current_;
  current_ = nullptr;
  return {[flight] { flight->land(); }};
}

void MpiLane::barrier() {
  require(false, "a barrier in background work: it would hold up nobody");
}

Ticket MpiLane::background(const std::function<void(Communicator&)>&) {
  require(false, "background work started inside background work");
  return {};
}

std::unique_ptr<Communicator> MpiLane::split(int, int) {
  require(false, "split in background work: communicators are made at start-up");
  return nullptr;
}

// --- the communicator

MpiCommunicator::MpiCommunicator(const MpiGround& ground)
    : MpiOperations(ground),
      blocking_(ground.comm),
      flight_(ground.comm, turns_, *ground.backend, ground.memory, pool_),
      lane_(ground.on(duplicate(ground.comm))) {}

void MpiCommunicator::barrier() {
  check_mpi(MPI_Barrier(ground_.comm), "MPI_Barrier");
}

std::unique_ptr<Communicator> MpiCommunicator::split(int color, int key) {
  require(color >= 0, "split needs a color that is not negative");
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(ground_.comm, color, key, &part), "MPI_Comm_split");
  return make_mpi_communicator(ground_.on(part));
}

std::unique_ptr<Communicator> make_mpi_communicator(const MpiGround& ground) {
  if (ground.size == 1) return make_self_communicator(*ground.backend);
  return std::make_unique<MpiCommunicator>(ground);
}

}  // namespace trireme
