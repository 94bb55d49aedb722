#pragma once
// How long an operation takes on a machine, from its table. Pure functions of sizes: no clock, no order.

#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "trireme/deck/machine.h"
#include "trireme/device/meter.h"

namespace trireme {

class Cost {
 public:
  // Throws Error(Exit::usage) naming what the table lacks for this precision ("bf16").
  Cost(const Machine& machine, const std::string& precision);

  // An ideal time, FLOPs / peak + bytes / bandwidth, times what measured products of like size took beyond theirs:
  // their mean, weighted by 1 / distance^4 in the logarithms of the three sizes. A measured size gives its measured
  // time.
  double product(const Product& product) const;
  // FLOPs by the rate of the nearest head sizes and lengths, in the same way.
  double attention(const AttentionShape& shape, DType dtype, double flops, ProductKind direction) const;
  double pass(Pass pass, double bytes) const;
  // Latency + bytes sent in a ring / bandwidth. Inside a node all are one hop apart; between n nodes the latency counts
  // ceil(log2 n) times, and a collective of several ranks per node uses the network devices of all of them.
  double exchange(const Exchange& exchange) const;
  const Machine& machine() const { return machine_; }

 private:
  double ideal(std::int64_t T, std::int64_t F, std::int64_t C, const std::string& precision) const;
  const Wire& wire(const std::array<std::optional<Wire>, k_n_exchanges>& wires, ExchangeKind kind,
                   const char* where) const;
  double measured_excess(const Product& product, const std::string& precision) const;

  const Machine& machine_;
  double bandwidth_ = 0;
  std::array<double, k_n_passes> passes_{};
  using Key = std::tuple<int, std::int64_t, std::int64_t, std::int64_t, int>;
  mutable std::map<Key, double> known_, known_attention_;  // attention: seconds per FLOP
  std::array<std::optional<Wire>, k_n_exchanges> node_, network_;
};

// The name that tables use: "bf16"; both fp8 formats are "fp8".
std::string precision_of(DType dtype);

}  // namespace trireme
