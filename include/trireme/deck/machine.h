#pragma once
// What a machine can do, as measured by tools/measure: rates of matrix products, attention, passes over memory and
// messages. Plain data and its TOML form; how times follow from it is written in train/cost.h.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme {

// Rates of the three products of a layer with so many tokens, outputs and inputs: FLOP/s; 0: not measured.
struct GemmRates {
  std::int64_t tokens = 0, outputs = 0, inputs = 0;
  double forward = 0, dx = 0, dw = 0;
};

// FLOP/s over the pairs that the causal mask leaves visible: 4 per pair, head and channel forward, 10 backward.
struct AttentionRates {
  std::int64_t head_dim = 0, sequence = 0;
  double forward = 0, backward = 0;
};

struct Wire {
  double latency = 0;    // seconds of an empty operation: of a node's ranks, of two nodes
  double bandwidth = 0;  // bytes/s that a rank sends, counted as in a ring
};

struct Machine {
  std::string name, file;
  double memory = 0, reserve = 0;  // bytes of a device; what the driver and the libraries keep for themselves
  std::int64_t gpus_per_node = 1;
  double sustained = 1;  // rate of products and attention in training, where power limits the clock, to the tables'
  double launch = 0;     // seconds from one operation to the next
  std::map<std::string, double> peak;                  // precision -> FLOP/s, dense
  std::map<std::string, std::vector<GemmRates>> gemm;  // precision -> rates
  std::map<std::string, std::vector<AttentionRates>> attention;
  std::map<std::string, double> passes;       // name of a pass -> bytes/s
  std::map<std::string, Wire> node, network;  // name of an exchange -> wire, inside and between nodes
};

// Throws Error(Exit::usage) that lists everything wrong with file and line.
Machine parse_machine(const std::string& file, const std::string& text);
Machine read_machine(const std::string& file);
std::string print_machine(const Machine& machine);

// The file of a table: `name` itself when it is a path or ends with .toml, else NAME.toml in the first of the folders
// that has it. Throws Error(Exit::usage) with the names that there are.
std::string machine_file(const std::string& name, const std::vector<std::string>& folders);
// Where tables lie for a program in this folder: beside it, and where `install` puts them.
std::vector<std::string> machine_folders(const std::string& program_folder);

}  // namespace trireme
