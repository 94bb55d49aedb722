// Messages between ranks: an empty one gives the latency, a large one the bandwidth.
#include <cmath>

#include "measure.h"
#include "timing.h"
#include "trireme/base/log.h"

namespace trireme::measure {

namespace {

struct Sizes {
  std::int64_t small, large;  // elements of f32, multiples of the ranks
};

// Bytes that a rank of a ring sends for a tensor of so many bytes.
double sent(ExchangeKind kind, double bytes, int n) {
  const double others = static_cast<double>(n - 1) / n;
  if (kind == ExchangeKind::all_reduce) return 2 * others * bytes;
  if (kind == ExchangeKind::all_gather || kind == ExchangeKind::reduce_scatter) return others * bytes;
  return bytes;
}

void exchange(ExchangeKind kind, Communicator& ranks, Tensor x, Tensor other) {
  const std::int64_t share = x.rows() / ranks.size();
  const Tensor mine = x.slice_rows(ranks.rank() * share, share);
  if (kind == ExchangeKind::all_reduce) ranks.all_reduce(x, Reduce::max);
  if (kind == ExchangeKind::all_gather) ranks.all_gather(x, mine);
  if (kind == ExchangeKind::reduce_scatter) ranks.reduce_scatter(mine, x);
  if (kind == ExchangeKind::broadcast) ranks.broadcast(x, 0);
  if (kind == ExchangeKind::shift) ranks.shift(other, x);
  if (kind != ExchangeKind::send || ranks.rank() > 1) return;
  if (ranks.rank() == 0) ranks.send(x, 1);
  if (ranks.rank() == 1) ranks.recv(x, 0);
}

}  // namespace

void measure_wires(Communicator& ranks, Backend& backend, const Options& options, std::map<std::string, Wire>& wires) {
  const int n = ranks.size();
  const bool cuda = options.kind == DeviceKind::cuda && !options.quick;
  const Sizes sizes{std::int64_t{64} * n, (cuda ? std::int64_t{64} << 20 : std::int64_t{1} << 20) / n * n};
  Arena arena(backend, "messages", static_cast<std::size_t>(8 * sizes.large) + 4096);
  const Tensor x = arena.take(DType::f32, {sizes.large}), other = arena.take(DType::f32, {sizes.large});
  backend.fill(x, 0);
  const std::int64_t times = cuda ? 20 : 10;  // the same on all ranks
  for (int i = 0; i < k_n_exchanges; ++i) {
    const auto kind = static_cast<ExchangeKind>(i);
    const auto time = [&](std::int64_t count) {
      const auto once = [&] { exchange(kind, ranks, x.slice_rows(0, count), other.slice_rows(0, count)); };
      for (int k = 0; k < 3; ++k) once();
      ranks.barrier();
      return seconds_of(backend, once, times);
    };
    const double latency = time(sizes.small), large = time(sizes.large);
    const double bytes = sent(kind, 4.0 * static_cast<double>(sizes.large), n);
    Wire& wire = wires[name_of(kind)];
    wire.latency = options.between_nodes ? latency / std::ceil(std::log2(n)) : latency;
    wire.bandwidth = bytes / std::max(large - latency, 1e-3 * large);
    log().info(format("%-15s %8.1f us %8.2f GB/s", name_of(kind), wire.latency * 1e6, wire.bandwidth / 1e9));
  }
}

}  // namespace trireme::measure
