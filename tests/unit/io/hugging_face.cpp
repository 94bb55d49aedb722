#include "trireme/io/hugging_face.h"

#include <cmath>
#include <set>

#include "catch.h"
#include "files.h"

using namespace trireme;
using namespace trireme::test;
using Catch::Matchers::Contains;

namespace {

std::string fixture(const std::string& family, const std::string& name) {
  return std::string(TRIREME_SOURCE_DIR) + "/tests/parity/hf/" + family + "/" + name + ".safetensors";
}

// Our parameters of the fixtures, with global shapes (vocabulary padded to 336).
std::vector<std::pair<std::string, Shape>> parameters(HfFamily family, bool qkv_bias, bool tied) {
  std::vector<std::pair<std::string, Shape>> all;
  const bool gpt2 = family == HfFamily::gpt2;
  const std::int64_t C = gpt2 ? 48 : 64, K = gpt2 ? 48 : 16, F = gpt2 ? 192 : 172;
  all.push_back({"embedding.token.weight", {336, C}});
  if (gpt2) all.push_back({"embedding.position.weight", {64, C}});
  for (int n = 0; n < 3; ++n) {
    const std::string block = "block." + std::to_string(n) + ".";
    const std::vector<std::tuple<std::string, std::int64_t, std::int64_t, bool>> linears{
        {"attn.q", C, C, gpt2 || qkv_bias},
        {"attn.k", K, C, gpt2 || qkv_bias},
        {"attn.v", K, C, gpt2 || qkv_bias},
        {"attn.out", C, C, gpt2},
        {"mlp.up", F, C, gpt2},
        {"mlp.down", C, F, gpt2}};
    for (const auto& [name, out, in, bias] : linears) {
      all.push_back({block + name + ".weight", {out, in}});
      if (bias) all.push_back({block + name + ".bias", {out}});
    }
    if (!gpt2) all.push_back({block + "mlp.gate.weight", {F, C}});
    for (const char* norm : {"norm1", "norm2"}) {
      all.push_back({block + norm + ".gain", {C}});
      if (gpt2) all.push_back({block + norm + ".bias", {C}});
    }
  }
  all.push_back({"head.norm.gain", {C}});
  if (gpt2) all.push_back({"head.norm.bias", {C}});
  if (!tied) all.push_back({"head.weight", {336, C}});
  return all;
}

std::int64_t hidden_of(HfFamily family) {
  return family == HfFamily::gpt2 ? 48 : 64;
}

double sum_of_squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return sum;
}

}  // namespace

TEST_CASE("our parameters are the file, each element once") {
  const std::vector<std::tuple<std::string, HfFamily, bool, bool>> models{
      {"gpt2", HfFamily::gpt2, true, true},
      {"llama", HfFamily::llama, false, false},
      {"llama31_tied", HfFamily::llama, false, true},
      {"qwen2", HfFamily::llama, true, true}};
  for (const auto& [name, family, qkv_bias, tied] : models) {
    for (const char* kind : {"model", "expected"}) {
      INFO(name << " " << kind);
      const SafetensorsFile file(fixture(name, kind));
      const std::string prefix = std::string(kind) == "expected" ? "grad." : "";
      std::set<std::string> used;
      double ours = 0, theirs = 0;
      std::int64_t n_ours = 0, n_theirs = 0;

      for (const auto& [parameter, shape] : parameters(family, qkv_bias, tied)) {
        auto place = hf_place(family, parameter, hidden_of(family));
        REQUIRE(place);
        place->name = prefix + place->name;
        used.insert(place->name);
        const std::vector<double> values = hf_values(file, *place, shape);
        ours += sum_of_squares(values);
        n_ours += shape.count() - (shape[0] == 336 ? 5 * shape[1] : 0);
      }
      for (const auto& [their_name, tensor] : file.tensors()) {
        if (!their_name.starts_with(prefix)) continue;
        CHECK(used.contains(their_name));
        theirs += sum_of_squares(file.values(their_name));
        n_theirs += tensor.count();
      }

      CHECK(n_ours == n_theirs);
      CHECK(ours == Approx(theirs).epsilon(1e-12));
      CHECK(ours > 0);
    }
  }
}

TEST_CASE("GPT-2's fused and transposed matrices come apart") {
  const SafetensorsFile file(fixture("gpt2", "model"));
  const std::vector<double> weight = file.values("transformer.h.1.attn.c_attn.weight"),
                            bias = file.values("transformer.h.1.attn.c_attn.bias");
  const std::vector<double> up = file.values("transformer.h.1.mlp.c_fc.weight");
  const auto ours = [&](const std::string& name, const Shape& shape) {
    return hf_values(file, *hf_place(HfFamily::gpt2, "block.1." + name, 48), shape);
  };

  std::int64_t first = 0;
  for (const std::string part : {"q", "k", "v"}) {
    const std::vector<double> w = ours("attn." + part + ".weight", {48, 48}), b = ours("attn." + part + ".bias", {48});
    for (std::int64_t out = 0; out < 48; ++out) {
      CHECK(b[static_cast<std::size_t>(out)] == bias[static_cast<std::size_t>(first + out)]);
      for (const std::int64_t in : {0, 1, 47}) {
        CHECK(w[static_cast<std::size_t>(out * 48 + in)] == weight[static_cast<std::size_t>(in * 144 + first + out)]);
      }
    }
    first += 48;
  }
  CHECK(ours("mlp.up.weight", {192, 48})[191 * 48 + 3] == up[3 * 192 + 191]);
}

TEST_CASE("vocabulary padding is zero and positions beyond ours are left out") {
  const SafetensorsFile file(fixture("gpt2", "model"));
  const auto tokens = hf_values(file, *hf_place(HfFamily::gpt2, "embedding.token.weight", 48), {384, 48});
  const auto positions = hf_values(file, *hf_place(HfFamily::gpt2, "embedding.position.weight", 48), {48, 48});
  const std::vector<double> wte = file.values("transformer.wte.weight"), wpe = file.values("transformer.wpe.weight");

  CHECK(std::equal(wte.begin(), wte.end(), tokens.begin()));
  CHECK(std::all_of(tokens.begin() + 331 * 48, tokens.end(), [](double x) { return x == 0; }));
  CHECK(std::equal(positions.begin(), positions.end(), wpe.begin()));
}

TEST_CASE("shapes that do not fit are refused with both") {
  const SafetensorsFile file(fixture("llama", "model"));
  const auto error = [&](const std::string& name, const Shape& shape) {
    return error_of([&] { hf_values(file, *hf_place(HfFamily::llama, name, 64), shape); });
  };

  CHECK_THAT(error("block.0.mlp.up.weight", {176, 64}),
             Contains("3: ") && Contains("[172, 64]") && Contains("[176, 64]") && Contains("config.json"));
  CHECK_THAT(error("embedding.token.weight", {320, 64}), Contains("[331, 64]"));
  CHECK_THAT(error("embedding.token.weight", {336, 32}), Contains("[331, 64]"));
  CHECK_THAT(error("head.norm.gain", {64, 1}), Contains("[64]"));
  CHECK_THAT(error("block.7.mlp.up.weight", {172, 64}), Contains("no tensor \"model.layers.7.mlp.up_proj.weight\""));
}

TEST_CASE("families are told by their names, with and without a prefix") {
  const TemporaryFolder folder;
  const auto bare = [&](const std::string& name) {
    const std::string json = R"({")" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    const std::uint64_t length = json.size();
    return write_file(folder / "a", std::string(reinterpret_cast<const char*>(&length), 8) + json + "x");
  };

  CHECK(hf_family_of(SafetensorsFile(fixture("gpt2", "model"))) == HfFamily::gpt2);
  CHECK(hf_family_of(SafetensorsFile(fixture("qwen2", "model"))) == HfFamily::llama);
  CHECK(hf_family_of(SafetensorsFile(bare("h.0.attn.c_attn.weight"))) == HfFamily::gpt2);
  CHECK_FALSE(hf_family_of(SafetensorsFile(bare("encoder.layer.0.weight"))));
  CHECK(hf_values(SafetensorsFile(bare("ln_f.weight")), *hf_place(HfFamily::gpt2, "head.norm.gain", 1), {1}) ==
        std::vector<double>{'x'});
}

TEST_CASE("names of Qwen 3's head norms, and none for what a family lacks") {
  CHECK(hf_place(HfFamily::llama, "block.11.attn.q_norm.gain", 64)->name == "model.layers.11.self_attn.q_norm.weight");
  CHECK(hf_place(HfFamily::llama, "block.11.attn.k_norm.gain", 64)->name == "model.layers.11.self_attn.k_norm.weight");
  CHECK_FALSE(hf_place(HfFamily::llama, "block.0.norm1.bias", 64));
  CHECK_FALSE(hf_place(HfFamily::llama, "embedding.position.weight", 64));
  CHECK_FALSE(hf_place(HfFamily::gpt2, "block.0.mlp.gate.weight", 64));
  CHECK_FALSE(hf_place(HfFamily::gpt2, "block.", 64));
}
