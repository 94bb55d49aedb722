#pragma once
// Times operations of a backend and of a communicator one by one: the numbers of a machine table.

#include <string>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/deck/machine.h"
#include "trireme/device/arena.h"
#include "trireme/device/meter.h"

namespace trireme::measure {

struct Options {
  double seconds = 0.1;                 // of each measurement, at least
  std::vector<std::string> precisions;  // "bf16", "fp8", "fp32", "fp64"
  DeviceKind kind = DeviceKind::cpu;
  std::vector<Product> products;  // of decks, besides the general ones
  bool between_nodes = false;     // the ranks are on nodes of their own
  bool quick = false;             // few and small shapes: for tests
};

// Fills gemm, attention, passes, launch and sustained of `machine`.
void measure_device(Backend& backend, const Options& options, Machine& machine);
// Fills the peaks: that of a known device at 16 bits, twice it in FP8, else the best rate measured. 0: not known.
void set_peaks(Machine& machine, double known_peak);
// Fills `wires`; collective over the communicator.
void measure_wires(Communicator& ranks, Backend& backend, const Options& options, std::map<std::string, Wire>& wires);

}  // namespace trireme::measure
