// The published weak-scaling tables of Megatron-LM (SC'21: arXiv 2104.04473, table 1; README of Megatron-Core 0.8 for
// H100) on the layouts they used. What is predicted is this program on that hardware, so the rows show the shape; each
// row's deviation is stated, and a change of the planner that moves one by more than two points has to state it anew.
#include <cstdio>

#include "catch.h"
#include "trireme/deck/read.h"
#include "trireme/train/job.h"
#include "trireme/train/search.h"

using namespace trireme;

namespace {

struct Row {
  const char* name;
  std::int64_t layers, hidden, heads, tensor, pipeline, micro, chunks;
  int n_ranks;
  std::int64_t batch;
  double published;  // A100: TFLOP/s per GPU with recomputation counted; H100: tokens/s per GPU
  double deviation;  // of the prediction, per cent
};

constexpr double k_moved = 2;

Machine machine_called(const std::string& name) {
  return read_machine(std::string(TRIREME_SOURCE_DIR) + "/machines/" + name + ".toml");
}

std::string setting(const char* key, std::int64_t value) {
  return std::string(key) + "=" + std::to_string(value);
}

std::vector<std::string> settings_of(const Row& row) {
  return {"data.source=mock",
          "device.kind=cuda",
          setting("model.layers", row.layers),
          setting("model.hidden", row.hidden),
          setting("model.heads", row.heads),
          setting("parallel.tensor", row.tensor),
          setting("parallel.pipeline", row.pipeline),
          setting("batch.micro", row.micro),
          setting("batch.global", row.batch),
          setting("parallel.virtual_stages", row.chunks)};
}

void compare(const Row& row, double predicted) {
  const double deviation = 100 * (predicted / row.published - 1);
  std::printf("%-7s %9.0f published %9.0f predicted %+6.1f %%\n", row.name, row.published, predicted, deviation);
  INFO(row.name);
  CHECK(std::abs(deviation - row.deviation) <= k_moved);
}

// They had no flash attention: the scores of all pairs went through memory in 16 bits, 6.5 times forward (written,
// softmax, dropout and its mask, read) and 9.5 times backward, beside 4 and 8 FLOPs per pair and channel, masked pairs
// included. Rates are over causal pairs, as in every table: 2 and 5 FLOPs per pair and channel.
void take_unfused_attention(Machine& m, std::int64_t head_dim) {
  const double d = static_cast<double>(head_dim), rate = 250e12, bandwidth = m.passes.at("elementwise");
  const double forward = 4 * d / rate + 6.5 * 2 / bandwidth, backward = 8 * d / rate + 9.5 * 2 / bandwidth;
  m.attention["bf16"] = {{head_dim, 2048, 2 * d / forward, 5 * d / backward}};
}

// Narayanan et al., 2021, equation 3.
double sc21_flops(const Row& row) {
  const double s = 2048, V = 51200, h = static_cast<double>(row.hidden), L = static_cast<double>(row.layers);
  return 96 * static_cast<double>(row.batch) * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h));
}

}  // namespace

TEST_CASE("the weak scaling of SC'21 on A100 is reproduced in shape") {
  const std::vector<Row> rows = {{"1.7B", 24, 2304, 24, 1, 1, 16, 1, 32, 512, 137, 8.2},
                                 {"3.6B", 30, 3072, 32, 2, 1, 16, 1, 64, 512, 138, 10.0},
                                 {"7.5B", 36, 4096, 32, 4, 1, 16, 1, 128, 512, 142, 10.9},
                                 {"18.4B", 40, 6144, 48, 8, 1, 8, 1, 256, 1024, 135, 13.8},
                                 {"39.1B", 48, 8192, 64, 8, 2, 4, 1, 512, 1536, 138, 15.1},
                                 {"76.1B", 60, 10240, 80, 8, 4, 2, 3, 1024, 1792, 140, 11.5},
                                 {"145.6B", 80, 12288, 96, 8, 8, 2, 2, 1536, 2304, 148, 4.1},
                                 {"310.1B", 96, 16384, 128, 8, 16, 1, 2, 1920, 2160, 155, -3.1},
                                 {"529.6B", 105, 20480, 128, 8, 35, 1, 3, 2520, 2520, 163, 16.8},
                                 {"1008B", 128, 25600, 160, 8, 64, 1, 1, 3072, 3072, 163, -4.4}};
  for (const Row& row : rows) {
    Machine machine = machine_called("a100");
    take_unfused_attention(machine, row.hidden / row.heads);
    std::vector<std::string> settings = settings_of(row);
    // Between stages they sent each tensor rank's share only; here that comes with sequence parallelism.
    settings.insert(settings.end(), {"precision.compute=fp16", "model.sequence=2048", "model.vocab=51200",
                                     "model.dropout=0.1", "parallel.recompute=block", "parallel.zero=false",
                                     row.pipeline > 1 ? "parallel.sequence=true" : "parallel.sequence=false"});
    const Deck deck = parse_deck({}, settings, row.n_ranks);

    const Prediction p = predict(deck, Model(deck.model), grid_size(deck.parallel, row.n_ranks), DeviceKind::cuda,
                                 Cost(machine, "fp16"), 0);

    compare(row, sc21_flops(row) / row.n_ranks / p.step / 1e12);
    CHECK(p.memory < machine.memory);  // they ran
  }
}

// Micro-batch, chunks and recomputation are not published: those that the search likes best.
TEST_CASE("the weak scaling on H100 is reproduced in shape") {
  const std::vector<Row> rows = {{"1.7B", 24, 2048, 16, 1, 1, 1, 1, 48, 192, 36260, 48.5},
                                 {"7.1B", 30, 4096, 32, 2, 1, 1, 1, 96, 192, 10240, 22.1},
                                 {"16B", 32, 6144, 48, 4, 1, 1, 1, 192, 192, 4820, 5.0},
                                 {"32B", 48, 7168, 56, 8, 1, 1, 1, 384, 192, 2297, -9.4},
                                 {"70B", 84, 8192, 64, 8, 2, 1, 1, 768, 384, 941, 12.1},
                                 {"119B", 92, 10240, 80, 8, 4, 1, 1, 1536, 768, 561, 11.1},
                                 {"177B", 96, 12288, 96, 8, 6, 1, 1, 2304, 1152, 389, 9.1},
                                 {"314B", 96, 16384, 128, 8, 8, 1, 1, 3072, 1536, 244, 1.4},
                                 {"462B", 112, 18432, 144, 8, 16, 1, 1, 6144, 3072, 161, 4.3}};
  const Machine machine = machine_called("h100");
  for (const Row& row : rows) {
    std::vector<std::string> settings = settings_of(row);
    settings.insert(settings.end(), {"precision.compute=bf16", "model.sequence=4096", "model.vocab=131072",
                                     "model.tie_embeddings=false"});
    SearchSettings search;
    search.n_ranks = row.n_ranks;
    search.fixed = {"parallel.tensor", "parallel.pipeline", "parallel.context"};

    const SearchResult result = search_layouts(parse_deck({}, settings, row.n_ranks), machine, search);

    REQUIRE_FALSE(result.layouts.empty());
    compare(row, result.layouts.front().prediction.tokens_per_second);
  }
}
