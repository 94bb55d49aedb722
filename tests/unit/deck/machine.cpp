#include "trireme/deck/machine.h"

#include "catch.h"
#include "trireme/base/check.h"

using namespace trireme;

namespace {

const std::string k_text = R"([machine]
name = "two of them"
memory_gib = 80
reserve_gib = 0.5
gpus_per_node = 8
sustained = 0.96
launch_us = 4

[peak]
bf16 = 312

[bandwidth]
norm = 1000.5

[gemm]
bf16 = [[1024, 2048, 4096, 250, 240.5, 230]]

[attention]
bf16 = [[64, 1024, 100, 90], [128, 2048, 120, 110]]

[node]
all_reduce = [36, 324]

[network]
send = [10, 22.5]
)";

std::string message_of(const std::string& text) {
  try {
    parse_machine("a.toml", text);
  } catch (const Error& error) {
    CHECK(error.code == Exit::usage);
    return error.what();
  }
  return "";
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = k_text;
  text.replace(text.find(from), from.size(), to);
  return text;
}

}  // namespace

TEST_CASE("a machine table is read in its units and printed so that it reads back") {
  const Machine m = parse_machine("a.toml", k_text), again = parse_machine("b.toml", print_machine(m));
  for (const Machine* machine : {&m, &again}) {
    CHECK(machine->name == "two of them");
    CHECK(machine->memory == 80 * 1073741824.0);
    CHECK(machine->reserve == 0.5 * 1073741824.0);
    CHECK(machine->gpus_per_node == 8);
    CHECK(machine->sustained == 0.96);
    CHECK(machine->launch == Approx(4e-6));
    CHECK(machine->peak.at("bf16") == 312e12);
    CHECK(machine->passes.at("norm") == Approx(1000.5e9));
    REQUIRE(machine->gemm.at("bf16").size() == 1);
    CHECK(machine->gemm.at("bf16")[0].inputs == 4096);
    CHECK(machine->gemm.at("bf16")[0].dx == Approx(240.5e12));
    REQUIRE(machine->attention.at("bf16").size() == 2);
    CHECK(machine->attention.at("bf16")[1].backward == Approx(110e12));
    CHECK(machine->node.at("all_reduce").latency == Approx(36e-6));
    CHECK(machine->network.at("send").bandwidth == Approx(22.5e9));
  }
}

TEST_CASE("what is wrong in a machine table is named with its line, all at once") {
  CHECK(message_of(replaced("[peak]", "[peaks]")).find("a.toml:9: unknown section peaks; did you mean [peak]?") !=
        std::string::npos);
  CHECK(message_of(replaced("bf16 = 312", "bf61 = 312")).find("a.toml:10: peak.bf61: unknown key") !=
        std::string::npos);
  CHECK(message_of(replaced("240.5, 230", "240.5")).find("row 1: expected [tokens, outputs, inputs") !=
        std::string::npos);
  CHECK(message_of(replaced("[36, 324]", "[36, -1]")).find("expected [microseconds, GB/s]") != std::string::npos);
  CHECK(message_of(replaced("= 1000.5", "= \"fast\"")).find("norm: expected a number above 0, found the string") !=
        std::string::npos);
  CHECK(message_of("[peak]\nbf16 = 1\nfp8 = -1\n[speed]\n").find("memory_gib is missing") != std::string::npos);
  CHECK(message_of("[machine\n").find("a.toml:1: ") != std::string::npos);
}
