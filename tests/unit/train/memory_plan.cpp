#include "trireme/train/memory_plan.h"

#include "catch.h"
#include "trireme/deck/read.h"
#include "trireme/train/gradients.h"

using namespace trireme;

namespace {

Deck deck_of(const std::vector<std::string>& settings, int n_ranks) {
  std::vector<std::string> all = {"data.source=mock", "device.kind=cpu"};
  all.insert(all.end(), settings.begin(), settings.end());
  return parse_deck({}, all, n_ranks);
}

RankPlan plan_of(const std::vector<std::string>& settings, const std::array<int, k_n_axes>& size, int rank) {
  const Deck deck = deck_of(settings, size[0] * size[1] * size[2] * size[3]);
  const Model model(deck.model);
  return plan_rank(deck, model, point_of(size, rank), DeviceKind::cpu);
}

std::size_t part(const RankPlan& plan, const std::string& purpose) {
  for (const auto& [name, bytes] : plan.memory) {
    if (name == purpose) return bytes;
  }
  FAIL("no part of the plan is called " + purpose);
  return 0;
}

const std::vector<std::string> k_small = {"model.layers=4",     "model.hidden=64", "model.heads=4",
                                          "model.sequence=128", "model.vocab=250", "model.vocab_multiple=2",
                                          "batch.global=8",     "batch.micro=1",   "parallel.bucket_mb=0.1"};

std::vector<std::string> small_with(std::vector<std::string> more) {
  more.insert(more.begin(), k_small.begin(), k_small.end());
  return more;
}

}  // namespace

// 96 layers of 12288 with biases: 12 h^2 + 13 h each, the final norm 2 h, the head V h.
TEST_CASE("FLOPs per token of GPT-3 175B are those of the two conventions") {
  const Deck deck = deck_of(
      {"model.layers=96", "model.hidden=12288", "model.heads=96", "model.sequence=2048", "model.vocab=51200"}, 0);
  const double L = 96, h = 12288, s = 2048, V = 51200;
  const double n = L * (12 * h * h + 13 * h) + 2 * h + V * h;

  const ModelFlops flops = flops_per_token(Model(deck.model));

  CHECK(flops.causal == Approx(6 * n + 6 * L * h * s).epsilon(1e-15));
  CHECK(flops.full == Approx(6 * n + 12 * L * h * s).epsilon(1e-15));
  // Narayanan et al., 2021, equation 3 without recomputation: 72 B s L h^2 (1 + s/6h + V/12Lh), which leaves out
  // biases.
  CHECK(flops.full == Approx(72 * L * h * h * (1 + s / (6 * h) + V / (12 * L * h))).epsilon(1e-4));
}

TEST_CASE("a grouped-query model counts its smaller keys and values and its real vocabulary") {
  const Deck deck = deck_of({"model.layers=2", "model.hidden=64", "model.heads=8", "model.kv_heads=2", "model.ffn=96",
                             "model.vocab=1001", "model.norm=rms", "model.activation=swiglu", "model.position=rope",
                             "model.bias=none", "model.sequence=32", "model.tie_embeddings=false"},
                            0);
  const double per_layer = 64 * 64 + 2 * 16 * 64 + 64 * 64 + 3 * 96 * 64 + 2 * 64;

  const ModelFlops flops = flops_per_token(Model(deck.model));

  const double n = 2 * per_layer + 64 + 1001 * 64;
  CHECK(flops.causal == 6 * n + 6 * 2 * 64 * 32);
  CHECK(flops.full == 6 * n + 12 * 2 * 64 * 32);
}

TEST_CASE("the work of a step on one rank is the model's FLOPs, and recomputation adds to it") {
  const Deck deck = deck_of(k_small, 1);
  const Model model(deck.model);
  const double tokens = 8 * 128;

  const RankPlan none = plan_of(k_small, {1, 1, 1, 1}, 0);
  const RankPlan block = plan_of(small_with({"parallel.recompute=block"}), {1, 1, 1, 1}, 0);

  // Biases and norms are in 6 N but are no matrix products; the padded vocabulary is multiplied.
  const double matrices = 4 * 12 * 64 * 64 + 250 * 64;
  CHECK(none.flops.matmul_flops == 6 * matrices * tokens);
  CHECK(block.flops.matmul_flops == 6 * matrices * tokens + 2 * (4 * 12 * 64 * 64) * tokens);
  CHECK(block.flops.attention_flops > none.flops.attention_flops);
  // 2 products of (s + 1) / 2 visible keys forward, 5 backward.
  CHECK(none.flops.attention_flops == Approx(tokens * 4 * 64 * 2 * (2 + 5) * (129.0 / 2)));
}

TEST_CASE("ranks of a grid hold the parameters once between them and their copies of what is not cut") {
  const std::int64_t all = Model(deck_of(k_small, 1).model).table().n_elements();
  CHECK(plan_of(k_small, {1, 1, 1, 1}, 0).n_params == all);
  CHECK(plan_of(k_small, {1, 2, 2, 1}, 3).n_params == all);
  const std::int64_t tied = 250 * 64;
  std::int64_t stages = 0;
  for (int rank = 0; rank < 4; ++rank)
    stages += plan_of(small_with({"parallel.pipeline=4"}), {4, 1, 1, 1}, rank).n_params;
  CHECK(stages == all + tied);
}

TEST_CASE("ZeRO-1 divides the optimizer state by the replicas") {
  const std::vector<std::string> settings = small_with({"parallel.data=4"});
  const std::vector<std::string> off = small_with({"parallel.data=4", "parallel.zero=false"});

  const RankPlan sharded = plan_of(settings, {1, 4, 1, 1}, 1), whole = plan_of(off, {1, 4, 1, 1}, 1);

  CHECK(part(sharded, "optimizer state") * 4 == part(whole, "optimizer state"));
  CHECK(part(sharded, "weights") == part(whole, "weights"));
}

TEST_CASE("more recomputation keeps less") {
  std::size_t before = SIZE_MAX;
  for (const char* mode : {"none", "light", "attention", "block"}) {
    const RankPlan plan = plan_of(small_with({std::string("parallel.recompute=") + mode}), {1, 1, 1, 1}, 0);
    CHECK(part(plan, "saved activations") < before);
    before = part(plan, "saved activations");
  }
}

TEST_CASE("1F1B keeps less on later stages, GPipe the same on all") {
  const std::vector<std::string> settings = small_with({"parallel.pipeline=4"});
  const std::vector<std::string> gpipe = small_with({"parallel.pipeline=4", "parallel.schedule=gpipe"});
  for (int stage = 0; stage < 4; ++stage) {
    CHECK(plan_of(settings, {4, 1, 1, 1}, stage).slots == std::vector<int>{4 - stage});
    CHECK(plan_of(gpipe, {4, 1, 1, 1}, stage).slots == std::vector<int>{8});
  }
}

TEST_CASE("traffic is what the equations of the layers say") {
  const RankPlan data = plan_of(small_with({"parallel.data=2"}), {1, 2, 1, 1}, 0);
  const double padded = static_cast<double>(part(data, "weights"));
  CHECK(data.traffic.replicas == padded / 2 + padded / 2);
  const RankPlan pipe = plan_of(small_with({"parallel.pipeline=2"}), {2, 1, 1, 1}, 0);
  CHECK(pipe.pipeline_bytes == 8 * 128 * 64 * 4);
  const RankPlan alone = plan_of(k_small, {1, 1, 1, 1}, 0);
  CHECK((alone.traffic.along[3] == 0 && alone.traffic.replicas == 0 && alone.pipeline_bytes == 0));
}

TEST_CASE("replicas own ranges that tile each bucket; without ZeRO-1 all of it") {
  Bucket bucket;
  bucket.size = 64 * 6;
  std::int64_t next = 0;
  for (int rank = 0; rank < 6; ++rank) {
    double bytes = 0;
    const auto replicas = make_plan_communicator(rank, 6, &bytes);
    const Range own = owned_range(bucket, *replicas, Zero::on);
    CHECK(own.first == next);
    CHECK(own.count() == 64);
    CHECK(owned_range(bucket, *replicas, Zero::off) == Range{0, bucket.size});
    next = own.last;
  }
  CHECK(next == bucket.size);
}

TEST_CASE("what MPI copies is planned for replicas on the CPU, whatever the size of the buckets") {
  const auto copies = [](const std::vector<std::string>& settings, const std::array<int, k_n_axes>& size) {
    return part(plan_of(small_with(settings), size, 0), "copies inside MPI");
  };
  const std::size_t gradients = part(plan_of(small_with({"parallel.data=4"}), {1, 4, 1, 1}, 0), "gradients");

  CHECK(copies({}, {1, 1, 1, 1}) == 0);
  CHECK(copies({"parallel.tensor=2"}, {1, 1, 1, 2}) == 0);
  const std::size_t scattered = copies({"parallel.data=4"}, {1, 4, 1, 1});
  CHECK(scattered == 3 * std::min<std::size_t>(gradients, 512 << 10));
  CHECK(copies({"parallel.data=4", "parallel.bucket_mb=1000"}, {1, 4, 1, 1}) == scattered);
}
