#include "trireme/train/cost.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "trireme/base/check.h"

namespace trireme {

namespace {

double rate_of(const GemmRates& r, ProductKind kind) {
  return kind == ProductKind::forward ? r.forward : kind == ProductKind::dx ? r.dx : r.dw;
}

double product_flops(std::int64_t T, std::int64_t F, std::int64_t C) {
  return 2.0 * static_cast<double>(T) * static_cast<double>(F) * static_cast<double>(C);
}

double octaves(std::int64_t a, std::int64_t b) {
  return std::log2(static_cast<double>(std::max<std::int64_t>(1, a)) /
                   static_cast<double>(std::max<std::int64_t>(1, b)));
}

// Mean of values weighted by 1 / distance^4; a distance of 0 is taken alone.
class Nearby {
 public:
  void add(double squared_distance, double value) {
    constexpr double k_same = 1e-6;  // keeps the weight of an exact match finite and overwhelming
    const double weight = 1 / ((squared_distance + k_same) * (squared_distance + k_same));
    sum_ += weight * value;
    weights_ += weight;
  }
  bool empty() const { return weights_ == 0; }
  double mean() const { return sum_ / weights_; }

 private:
  double sum_ = 0, weights_ = 0;
};

// Formats of 16 bits run at one speed on tensor cores: one table serves both.
template <class T>
const T* find_rates(const std::map<std::string, T>& tables, const std::string& precision) {
  for (const std::string& name : {precision, std::string(precision == "fp16"   ? "bf16"
                                                         : precision == "bf16" ? "fp16"
                                                                               : "")}) {
    const auto found = tables.find(name);
    if (found != tables.end()) return &found->second;
  }
  return nullptr;
}

template <class T>
const T& rates_of(const std::map<std::string, T>& tables, const std::string& precision, const char* what,
                  const Machine& machine) {
  const T* found = find_rates(tables, precision);
  if (found == nullptr)
    throw Error(Exit::usage, "the machine table " + machine.file + " has no " + what + " for " + precision +
                                 ": measure them with tools/measure --precision " + precision);
  return *found;
}

}  // namespace

std::string precision_of(DType dtype) {
  if (dtype == DType::f64) return "fp64";
  if (dtype == DType::f32) return "fp32";
  if (dtype == DType::bf16) return "bf16";
  return dtype == DType::f16 ? "fp16" : "fp8";
}

Cost::Cost(const Machine& machine, const std::string& precision) : machine_(machine) {
  rates_of(machine.gemm, precision, "products in [gemm]", machine);
  rates_of(machine.peak, precision, "rate in [peak]", machine);
  rates_of(machine.attention, precision == "fp8" ? "bf16" : precision, "rates in [attention]", machine);
  std::map<std::string, double> left = machine.passes;
  for (int i = 0; i < k_n_passes; ++i) {
    const std::string name = name_of(static_cast<Pass>(i));
    const auto found = left.find(name);
    if (found == left.end()) throw Error(Exit::usage, "the machine table " + machine.file + " lacks bandwidth." + name);
    passes_[static_cast<std::size_t>(i)] = found->second;
    left.erase(found);
  }
  if (!left.empty())
    throw Error(Exit::usage, "the machine table " + machine.file + ": bandwidth." + left.begin()->first +
                                 " is no pass that the program knows");
  for (int i = 0; i < k_n_exchanges; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::string name = name_of(static_cast<ExchangeKind>(i));
    if (const auto found = machine.node.find(name); found != machine.node.end()) node_[at] = found->second;
    if (const auto found = machine.network.find(name); found != machine.network.end()) network_[at] = found->second;
  }
  bandwidth_ = passes_[static_cast<std::size_t>(Pass::elementwise)];
}

double Cost::ideal(std::int64_t T, std::int64_t F, std::int64_t C, const std::string& precision) const {
  const double peak = rates_of(machine_.peak, precision, "rate in [peak]", machine_);
  const double width = precision == "fp8" ? 1 : precision == "fp32" ? 4 : precision == "fp64" ? 8 : 2;
  const double elements = static_cast<double>(T) * static_cast<double>(F) +
                          static_cast<double>(T) * static_cast<double>(C) +
                          static_cast<double>(F) * static_cast<double>(C);
  return product_flops(T, F, C) / peak + elements * width / bandwidth_;
}

double Cost::measured_excess(const Product& p, const std::string& precision) const {
  Nearby nearby;
  for (const GemmRates& r : rates_of(machine_.gemm, precision, "products in [gemm]", machine_)) {
    const double rate = rate_of(r, p.kind);
    if (rate == 0) continue;
    const double dT = octaves(p.T, r.tokens), dF = octaves(p.F, r.outputs), dC = octaves(p.C, r.inputs);
    const double seconds = product_flops(r.tokens, r.outputs, r.inputs) / rate;
    nearby.add(dT * dT + dF * dF + dC * dC, seconds / ideal(r.tokens, r.outputs, r.inputs, precision));
  }
  if (nearby.empty())
    throw Error(Exit::usage,
                "the machine table " + machine_.file + " has only zeros for a kind of product in " + precision);
  return nearby.mean();
}

double Cost::product(const Product& p) const {
  if (p.T == 0 || p.F == 0 || p.C == 0) return 0;
  const std::string precision = precision_of(p.operands);
  const Key key{static_cast<int>(p.kind), p.T, p.F, p.C, static_cast<int>(p.operands)};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const double seconds = ideal(p.T, p.F, p.C, precision) * measured_excess(p, precision) / machine_.sustained;
  return known_[key] = seconds + machine_.launch;
}

double Cost::attention(const AttentionShape& shape, DType dtype, double flops, ProductKind direction) const {
  const Key key{static_cast<int>(direction), shape.head_dim, shape.k_rows, 0, static_cast<int>(dtype)};
  auto found = known_attention_.find(key);
  if (found == known_attention_.end()) {
    Nearby nearby;
    for (const AttentionRates& r :
         rates_of(machine_.attention, precision_of(dtype), "rates in [attention]", machine_)) {
      const double dD = 2 * octaves(shape.head_dim, r.head_dim), dS = octaves(shape.k_rows, r.sequence);
      nearby.add(dD * dD + dS * dS, 1 / (direction == ProductKind::forward ? r.forward : r.backward));
    }
    found = known_attention_.emplace(key, nearby.mean() / machine_.sustained).first;
  }
  return flops * found->second + machine_.launch;
}

double Cost::pass(Pass pass, double bytes) const {
  return bytes == 0 ? 0 : bytes / passes_[static_cast<std::size_t>(pass)] + machine_.launch;
}

const Wire& Cost::wire(const std::array<std::optional<Wire>, k_n_exchanges>& wires, ExchangeKind kind,
                       const char* where) const {
  const std::optional<Wire>& found = wires[static_cast<std::size_t>(kind)];
  if (!found) throw Error(Exit::usage, "the machine table " + machine_.file + " lacks " + where + "." + name_of(kind));
  return *found;
}

double Cost::exchange(const Exchange& e) const {
  if (e.size == 1) return 0;
  const auto in_node = static_cast<int>(std::clamp<std::int64_t>(machine_.gpus_per_node / e.stride, 1, e.size));
  const double others = static_cast<double>(e.size - 1) / e.size;
  double sent = e.bytes;
  if (e.kind == ExchangeKind::all_reduce) sent *= 2 * others;
  if (e.kind == ExchangeKind::all_gather || e.kind == ExchangeKind::reduce_scatter) sent *= others;
  const bool one_node = in_node == e.size;
  double latency = 0, bandwidth = 0;
  if (in_node > 1 || one_node) {
    const Wire& node = wire(node_, e.kind, "node");
    latency += node.latency;
    bandwidth = node.bandwidth;
  }
  if (!one_node) {
    // A collective of several ranks per node uses the network devices of all of them; a ring has one way out.
    const Wire& network = wire(network_, e.kind, "network");
    const bool ring = e.kind == ExchangeKind::shift || e.kind == ExchangeKind::send;
    const double out = network.bandwidth * (ring ? 1 : in_node);
    latency += network.latency * std::ceil(std::log2(static_cast<double>(e.size) / in_node));
    bandwidth = bandwidth == 0 ? out : std::min(bandwidth, out);
  }
  return latency + sent / bandwidth;
}

}  // namespace trireme
