#include "trireme/model/model.h"

#include <cmath>
#include <set>

#include "catch.h"
#include "models.h"
#include "trireme/base/check.h"

using namespace trireme;

namespace {

constexpr double k_two_pi = 6.283185307179586;

ModelDeck rotary(std::int64_t head_dim, double theta) {
  ModelDeck m = llama_like();
  m.head_dim = head_dim;
  m.rope_theta = theta;
  m.rope_scaling = "none";
  return m;
}

std::int64_t elements(const Model& model, const std::string& name) {
  for (const ParamSpec& spec : model.table().all()) {
    if (spec.name == name) return spec.shape.count();
  }
  return 0;
}

}  // namespace

TEST_CASE("rotary angles are powers of theta") {
  const std::vector<double> angles = rope_angles(rotary(8, 10000));
  REQUIRE(angles.size() == 4);
  CHECK(angles[0] == 1);
  CHECK(angles[1] == Approx(0.1));
  CHECK(angles[2] == Approx(0.01));
  CHECK(angles[3] == Approx(0.001));
}

TEST_CASE("linear scaling divides every angle") {
  ModelDeck m = rotary(8, 10000);
  m.rope_scaling = "linear";
  m.rope_factor = 4;
  const std::vector<double> angles = rope_angles(m);
  CHECK(angles[0] == Approx(0.25));
  CHECK(angles[3] == Approx(0.00025));
}

// Llama 3.1: theta 500000, head size 128, factor 8, low 1, high 4, 8192 tokens. Wavelengths below 8192 / 4 stay, those
// above 8192 are stretched in full, between them the blend is linear in the number of turns.
TEST_CASE("Llama-3 scaling leaves short waves, stretches long ones and blends between") {
  ModelDeck m = rotary(128, 500000);
  const std::vector<double> plain = rope_angles(m);
  m.rope_scaling = "llama3";
  m.rope_factor = 8;
  m.rope_low_freq = 1;
  m.rope_high_freq = 4;
  m.rope_original_sequence = 8192;

  const std::vector<double> scaled = rope_angles(m);

  int kept = 0, stretched = 0, blended = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double wave = k_two_pi / plain[i];
    if (wave < 2048) CHECK((++kept, scaled[i] == plain[i]));
    if (wave > 8192) CHECK((++stretched, scaled[i] == Approx(plain[i] / 8)));
    if (wave < 2048 || wave > 8192) continue;
    const double smooth = (8192 / wave - 1) / 3;
    CHECK((++blended, scaled[i] == Approx((1 - smooth) * plain[i] / 8 + smooth * plain[i])));
  }
  CHECK(kept > 20);
  CHECK(stretched > 20);
  CHECK(blended > 2);
}

TEST_CASE("the rotary table holds cosine and sine of position times angle") {
  const ModelDeck m = rotary(4, 100);
  const std::vector<double> table = rope_table(m);
  REQUIRE(table.size() == static_cast<std::size_t>(m.sequence * 2 * 2));
  CHECK((table[0] == 1 && table[1] == 0));
  CHECK(table[4 * 7 + 0] == Approx(std::cos(7.0)));
  CHECK(table[4 * 7 + 1] == Approx(std::sin(7.0)));
  CHECK(table[4 * 7 + 2] == Approx(std::cos(0.7)));
  CHECK(table[4 * 7 + 3] == Approx(std::sin(0.7)));
}

TEST_CASE("the table of a model has every name once and the sizes of the deck") {
  for (const ModelDeck& deck : {gpt2_like(), llama_like(), window_like(), mixed_like()}) {
    const Model model(deck);
    std::set<std::string> names;
    for (const ParamSpec& spec : model.table().all()) CHECK(names.insert(spec.name).second);
  }
  const Model gpt2(gpt2_like());
  CHECK(elements(gpt2, "embedding.token.weight") == 24 * 12);
  CHECK(elements(gpt2, "embedding.position.weight") == 8 * 12);
  CHECK(elements(gpt2, "head.weight") == 0);
  const Model llama(llama_like());
  CHECK(elements(llama, "block.1.attn.k.weight") == 2 * 4 * 10);
  CHECK(elements(llama, "block.1.attn.q_norm.gain") == 4);
  CHECK(elements(llama, "block.1.mlp.gate.weight") == 14 * 10);
  CHECK(elements(llama, "head.weight") == 32 * 10);
}

// GPT-2 small, as published: 124,439,808 parameters with the vocabulary unpadded.
TEST_CASE("a deck of GPT-2 small has its published number of parameters") {
  ModelDeck m;
  m.kv_heads = 12;
  m.head_dim = 64;
  m.ffn = 3072;
  m.vocab_multiple = 1;
  const Model model(m);
  CHECK(model.table().n_elements() == 124439808);
  CHECK(model.n_flop_params() == 124439808 - 1024 * 768);
}

TEST_CASE("weights decay, vectors do not, and output projections start smaller") {
  const Model model(gpt2_like());
  for (const ParamSpec& spec : model.table().all()) {
    INFO(spec.name);
    CHECK(spec.decay == (spec.shape.rank == 2));
    const bool output = spec.name.find("attn.out.weight") != std::string::npos ||
                        spec.name.find("mlp.down.weight") != std::string::npos;
    if (spec.init == Init::normal) CHECK(spec.init_std == Approx(output ? 0.2 / 2 : 0.2));
  }
}

TEST_CASE("unknown names of a feature are refused") {
  CHECK(recompute_from("attention") == Recompute::attention);
  CHECK_THROWS_AS(recompute_from("everything"), std::logic_error);
  ModelDeck m = gpt2_like();
  m.activation = "tanh";
  CHECK_THROWS_AS(Model(m), std::logic_error);
}
