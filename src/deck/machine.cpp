#include "trireme/deck/machine.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "nearest.h"
#include "print.h"
#include "toml_text.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr double k_gib = 1073741824.0;
const std::vector<std::string> k_precisions = {"bf16", "fp16", "fp8", "fp32", "fp64"};
const std::vector<std::string> k_sections = {"machine", "peak", "gemm", "attention", "bandwidth", "node", "network"};

// Units of the file.
constexpr double k_tflops = 1e12, k_gbs = 1e9, k_microsecond = 1e-6;

struct MachineReader {
  Machine machine;
  std::string file;
  std::vector<std::string> problems;

  void report(int line, const std::string& text) {
    problems.push_back(file + ":" + std::to_string(line) + ": " + text);
  }
  bool known(const TomlEntry& entry, const std::vector<std::string>& names, const std::string& section);
  double number(const TomlEntry& entry, bool may_be_zero);
  std::vector<std::vector<double>> rows(const TomlEntry& entry, std::size_t width, const char* what);
  void machine_entry(const TomlEntry& entry);
  void section(const TomlSection& section);
};

std::optional<double> as_number(const TomlValue& value) {
  if (const auto* x = std::get_if<double>(&value.value)) return *x;
  if (const auto* x = std::get_if<std::int64_t>(&value.value)) return static_cast<double>(*x);
  return {};
}

bool MachineReader::known(const TomlEntry& entry, const std::vector<std::string>& names, const std::string& section) {
  for (const std::string& name : names) {
    if (entry.name == name) return true;
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  report(entry.line, section + "." + entry.name + ": unknown key; [" + section + "] has " + list);
  return false;
}

double MachineReader::number(const TomlEntry& entry, bool may_be_zero) {
  const std::optional<double> x = as_number(entry.value);
  if (x && (*x > 0 || (may_be_zero && *x == 0))) return *x;
  report(entry.line, entry.name + ": expected a number " + (may_be_zero ? "not below" : "above") + " 0, found " +
                         found(entry.value));
  return 1;
}

std::vector<std::vector<double>> MachineReader::rows(const TomlEntry& entry, std::size_t width, const char* what) {
  std::vector<std::vector<double>> table;
  const auto* list = std::get_if<TomlList>(&entry.value.value);
  const TomlList none;
  for (const TomlValue& row : list == nullptr ? none : *list) {
    std::vector<double> numbers;
    const auto* values = std::get_if<TomlList>(&row.value);
    for (const TomlValue& value : values == nullptr ? none : *values) {
      if (const auto x = as_number(value); x && *x >= 0) numbers.push_back(*x);
    }
    if (values != nullptr && values->size() == width && numbers.size() == width) {
      table.push_back(numbers);
      continue;
    }
    report(entry.line, entry.name + ": row " + std::to_string(table.size() + 1) + ": expected " + what);
    return table;
  }
  if (table.empty()) report(entry.line, entry.name + ": expected rows of " + std::string(what));
  return table;
}

void MachineReader::machine_entry(const TomlEntry& entry) {
  if (entry.name == "name") {
    const auto* text = std::get_if<std::string>(&entry.value.value);
    if (text == nullptr) report(entry.line, "name: expected a string, found " + found(entry.value));
    if (text != nullptr) machine.name = *text;
    return;
  }
  const std::map<std::string, std::function<void(double)>> keys = {
      {"memory_gib", [&](double x) { machine.memory = x * k_gib; }},
      {"reserve_gib", [&](double x) { machine.reserve = x * k_gib; }},
      {"gpus_per_node", [&](double x) { machine.gpus_per_node = static_cast<std::int64_t>(x); }},
      {"sustained", [&](double x) { machine.sustained = x; }},
      {"launch_us", [&](double x) { machine.launch = x * k_microsecond; }}};
  if (!known(entry, {"name", "memory_gib", "reserve_gib", "gpus_per_node", "sustained", "launch_us"}, "machine"))
    return;
  keys.at(entry.name)(number(entry, entry.name == "reserve_gib" || entry.name == "launch_us"));
}

void MachineReader::section(const TomlSection& section) {
  std::map<std::string, Wire>& wires = section.name == "node" ? machine.node : machine.network;
  for (const TomlEntry& entry : section.entries) {
    if (section.name == "machine") machine_entry(entry);
    if (section.name == "bandwidth") machine.passes[entry.name] = number(entry, false) * k_gbs;
    if (section.name == "node" || section.name == "network") {
      const auto table = rows({entry.name, {TomlList{entry.value}}, entry.line}, 2, "[microseconds, GB/s]");
      if (!table.empty()) wires[entry.name] = {table[0][0] * k_microsecond, table[0][1] * k_gbs};
      if (!table.empty() && table[0][1] == 0) report(entry.line, entry.name + ": expected GB/s above 0");
    }
    const bool by_precision = section.name == "peak" || section.name == "gemm" || section.name == "attention";
    if (!by_precision || !known(entry, k_precisions, section.name)) continue;
    if (section.name == "peak") machine.peak[entry.name] = number(entry, false) * k_tflops;
    if (section.name == "gemm") {
      for (const auto& r : rows(entry, 6, "[tokens, outputs, inputs, forward, dx, dw TFLOP/s]")) {
        machine.gemm[entry.name].push_back({static_cast<std::int64_t>(r[0]), static_cast<std::int64_t>(r[1]),
                                            static_cast<std::int64_t>(r[2]), r[3] * k_tflops, r[4] * k_tflops,
                                            r[5] * k_tflops});
      }
    }
    if (section.name == "attention") {
      for (const auto& r : rows(entry, 4, "[head_dim, sequence, forward, backward TFLOP/s]")) {
        machine.attention[entry.name].push_back(
            {static_cast<std::int64_t>(r[0]), static_cast<std::int64_t>(r[1]), r[2] * k_tflops, r[3] * k_tflops});
      }
    }
  }
}

std::string digits(double x) {
  return format("%.5g", x);
}

std::string wires_text(const std::map<std::string, Wire>& wires) {
  std::string text;
  for (const auto& [name, wire] : wires) {
    text += name + " = [" + digits(wire.latency / k_microsecond) + ", " + digits(wire.bandwidth / k_gbs) + "]\n";
  }
  return text;
}

std::string gemm_text(const Machine& machine) {
  std::string text =
      "\n[gemm]  # rows: tokens, outputs, inputs, then TFLOP/s of y = x w^T, of dx and of dw; 0: not measured\n";
  for (const auto& [precision, points] : machine.gemm) {
    text += precision + " = [\n";
    for (const GemmRates& p : points) {
      text += format("  [%lld, %lld, %lld, %s, %s, %s],\n", static_cast<long long>(p.tokens),
                     static_cast<long long>(p.outputs), static_cast<long long>(p.inputs),
                     digits(p.forward / k_tflops).c_str(), digits(p.dx / k_tflops).c_str(),
                     digits(p.dw / k_tflops).c_str());
    }
    text += "]\n";
  }
  return text;
}

std::string attention_text(const Machine& machine) {
  std::string text = "\n[attention]  # rows: head_dim, sequence, then TFLOP/s forward and backward over causal pairs\n";
  for (const auto& [precision, points] : machine.attention) {
    text += precision + " = [\n";
    for (const AttentionRates& p : points) {
      text +=
          format("  [%lld, %lld, %s, %s],\n", static_cast<long long>(p.head_dim), static_cast<long long>(p.sequence),
                 digits(p.forward / k_tflops).c_str(), digits(p.backward / k_tflops).c_str());
    }
    text += "]\n";
  }
  return text;
}

}  // namespace

Machine parse_machine(const std::string& file, const std::string& text) {
  MachineReader reader{{}, file, {}};
  reader.machine.file = file;
  const TomlText toml = parse_toml(text);
  if (!toml.error.empty()) reader.report(toml.error_line, toml.error);
  for (const TomlSection& section : toml.sections) {
    if (section.is_table && std::find(k_sections.begin(), k_sections.end(), section.name) != k_sections.end()) {
      reader.section(section);
      continue;
    }
    const std::string guess = nearest_word(section.name, k_sections);
    reader.report(section.line,
                  "unknown section " + section.name + (guess.empty() ? "" : "; did you mean [" + guess + "]?"));
  }
  const Machine& m = reader.machine;
  if (toml.error.empty() && m.memory == 0) reader.report(1, "machine.memory_gib is missing");
  if (toml.error.empty() && m.peak.empty()) reader.report(1, "[peak] names no precision");
  if (toml.error.empty() && m.gpus_per_node < 1) reader.report(1, "machine.gpus_per_node is below 1");
  if (reader.problems.empty()) return reader.machine;
  std::string all;
  for (const std::string& problem : reader.problems) all += (all.empty() ? "" : "\n  ") + problem;
  throw Error(Exit::usage, "this is no description of a machine:\n  " + all);
}

Machine read_machine(const std::string& file) {
  std::ifstream in(file);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || !text) throw Error(Exit::usage, "cannot read the machine table " + file);
  return parse_machine(file, text.str());
}

std::string print_machine(const Machine& m) {
  std::string text = "[machine]\nname = " + text_of(m.name) + "\n";
  text += "memory_gib = " + digits(m.memory / k_gib) + "  # of one device\n";
  text += "reserve_gib = " + digits(m.reserve / k_gib) + "  # of it, for driver and libraries\n";
  text += "gpus_per_node = " + std::to_string(m.gpus_per_node) + "\n";
  text += "sustained = " + digits(m.sustained) + "  # rate of products and attention in training to the tables'\n";
  text += "launch_us = " + digits(m.launch / k_microsecond) + "  # from one operation to the next\n";
  text += "\n[peak]  # dense TFLOP/s\n";
  for (const auto& [precision, rate] : m.peak) text += precision + " = " + digits(rate / k_tflops) + "\n";
  text += "\n[bandwidth]  # GB/s of passes over memory, by what each must read and write once\n";
  for (const auto& [name, rate] : m.passes) text += name + " = " + digits(rate / k_gbs) + "\n";
  text += gemm_text(m) + attention_text(m);
  text += "\n[node]  # [microseconds, GB/s that a rank sends] of operations between ranks of one node\n" +
          wires_text(m.node);
  text += "\n[network]  # the same between nodes, per rank\n" + wires_text(m.network);
  return text;
}

std::vector<std::string> machine_folders(const std::string& program_folder) {
  return {program_folder + "/machines", program_folder + "/../share/trireme/machines"};
}

std::string machine_file(const std::string& name, const std::vector<std::string>& folders) {
  namespace fs = std::filesystem;
  if (name.find('/') != std::string::npos || name.ends_with(".toml")) return name;
  std::set<std::string> known;
  std::error_code ignored;
  for (const std::string& folder : folders) {
    if (fs::exists(folder + "/" + name + ".toml", ignored)) return folder + "/" + name + ".toml";
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".toml") known.insert(entry.path().stem().string());
    }
  }
  std::string list;
  for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
  throw Error(Exit::usage, "there is no machine table \"" + name + "\"" +
                               (list.empty() ? " in " + folders.front() : "; known: " + list) +
                               "; or name a file (tools/measure makes one)");
}

}  // namespace trireme
