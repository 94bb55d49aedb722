#include "trireme/io/hugging_face.h"

#include <cmath>
#include <set>

#include "catch.h"
#include "files.h"
#include "trireme/io/hf_config.h"
#include "trireme/model/model.h"

using namespace trireme;
using namespace trireme::test;
using Catch::Matchers::Contains;

namespace {

std::string fixture(const std::string& family, const std::string& name) {
  return std::string(TRIREME_SOURCE_DIR) + "/tests/parity/hf/" + family + "/" + name + ".safetensors";
}

double sum_of_squares(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return sum;
}

}  // namespace

TEST_CASE("our parameters are the file, each element once") {
  for (const char* name : {"gpt2", "gpt_neox", "llama", "llama31_tied", "mistral", "qwen2", "qwen3"}) {
    const HfModel hf = read_hf_config(std::string(TRIREME_SOURCE_DIR) + "/tests/parity/hf/" + name);
    const Model model(hf.model);
    const std::int64_t n_padding = (padded_vocab(hf.model) - hf.model.vocab) * hf.model.hidden;
    for (const char* kind : {"model", "expected"}) {
      INFO(name << " " << kind);
      const HfFiles files(fixture(name, kind));
      const std::string prefix = std::string(kind) == "expected" ? "grad." : "";
      std::set<std::string> used;
      double ours = 0, theirs = 0;
      std::int64_t n_ours = 0, n_theirs = 0;

      for (const ParamSpec& spec : model.table().all()) {
        auto place = hf_place(hf.family, spec.name, {hf.model.hidden, hf.model.head_dim});
        REQUIRE(place);
        place->name = prefix + place->name;
        used.insert(place->name);
        const std::vector<double> values = hf_values(files, *place, spec.shape);
        ours += sum_of_squares(values);
        n_ours += spec.shape.count() - (spec.valid_rows > 0 ? n_padding : 0);
      }
      for (const std::string& their_name : files.names()) {
        if (!their_name.starts_with(prefix)) continue;
        CHECK(used.contains(their_name));
        theirs += sum_of_squares(files.values(their_name));
        n_theirs += files.at(their_name).count();
      }

      CHECK(n_ours == n_theirs);
      CHECK(ours == Approx(theirs).epsilon(1e-12));
      CHECK(ours > 0);
    }
  }
}

TEST_CASE("the heads of GPT-NeoX's fused matrix come apart") {
  const HfFiles files(fixture("gpt_neox", "model"));  // 4 heads of 8, 32 channels
  const std::string fused = "gpt_neox.layers.2.attention.query_key_value";
  const std::vector<double> weight = files.values(fused + ".weight"), bias = files.values(fused + ".bias");
  std::int64_t part = 0;
  for (const char* name : {"q", "k", "v"}) {
    const std::string ours = std::string("block.2.attn.") + name;
    const auto w = hf_values(files, *hf_place(HfFamily::neox, ours + ".weight", {32, 8}), {32, 32});
    const auto b = hf_values(files, *hf_place(HfFamily::neox, ours + ".bias", {32, 8}), {32});
    for (std::int64_t row = 0; row < 32; ++row) {
      const std::int64_t theirs = row / 8 * 24 + part * 8 + row % 8;
      CHECK(b[static_cast<std::size_t>(row)] == bias[static_cast<std::size_t>(theirs)]);
      CHECK(std::equal(w.begin() + row * 32, w.begin() + row * 32 + 32, weight.begin() + theirs * 32));
    }
    ++part;
  }
}

TEST_CASE("some rows of a parameter are those rows of the whole") {
  const HfFiles gpt2(fixture("gpt2", "model")), llama(fixture("llama", "model"));
  const auto check = [](const HfFiles& files, HfFamily family, const std::string& name, const Shape& shape) {
    const HfPlace place = *hf_place(family, name, {48, 8});
    const std::vector<double> whole = hf_values(files, place, shape), some = hf_values(files, place, shape, {3, 40});
    REQUIRE(std::ssize(some) == 37 * shape.columns());
    CHECK(std::equal(some.begin(), some.end(), whole.begin() + 3 * shape.columns()));
  };
  check(gpt2, HfFamily::gpt2, "block.1.attn.k.weight", {48, 48});
  check(gpt2, HfFamily::gpt2, "block.1.attn.k.bias", {48});
  check(llama, HfFamily::llama, "block.1.mlp.up.weight", {172, 64});
}

TEST_CASE("GPT-2's fused and transposed matrices come apart") {
  const HfFiles file(fixture("gpt2", "model"));
  const std::vector<double> weight = file.values("transformer.h.1.attn.c_attn.weight"),
                            bias = file.values("transformer.h.1.attn.c_attn.bias");
  const std::vector<double> up = file.values("transformer.h.1.mlp.c_fc.weight");
  const auto ours = [&](const std::string& name, const Shape& shape) {
    return hf_values(file, *hf_place(HfFamily::gpt2, "block.1." + name, {48, 8}), shape);
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
  const HfFiles file(fixture("gpt2", "model"));
  const auto tokens = hf_values(file, *hf_place(HfFamily::gpt2, "embedding.token.weight", {48, 8}), {384, 48});
  const auto positions = hf_values(file, *hf_place(HfFamily::gpt2, "embedding.position.weight", {48, 8}), {48, 48});
  const std::vector<double> wte = file.values("transformer.wte.weight"), wpe = file.values("transformer.wpe.weight");

  CHECK(std::equal(wte.begin(), wte.end(), tokens.begin()));
  CHECK(std::all_of(tokens.begin() + 331 * 48, tokens.end(), [](double x) { return x == 0; }));
  CHECK(std::equal(positions.begin(), positions.end(), wpe.begin()));
}

TEST_CASE("shapes that do not fit are refused with both") {
  const HfFiles file(fixture("llama", "model"));
  const auto error = [&](const std::string& name, const Shape& shape) {
    return error_of([&] { hf_values(file, *hf_place(HfFamily::llama, name, {64, 8}), shape); });
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

  CHECK(hf_family_of(HfFiles(fixture("gpt2", "model"))) == HfFamily::gpt2);
  CHECK(hf_family_of(HfFiles(fixture("qwen2", "model"))) == HfFamily::llama);
  CHECK(hf_family_of(HfFiles(bare("h.0.attn.c_attn.weight"))) == HfFamily::gpt2);
  CHECK_FALSE(hf_family_of(HfFiles(bare("encoder.layer.0.weight"))));
  CHECK(hf_values(HfFiles(bare("ln_f.weight")), *hf_place(HfFamily::gpt2, "head.norm.gain", {1, 8}), {1}) ==
        std::vector<double>{'x'});
}

TEST_CASE("names of Qwen 3's head norms, and none for what a family lacks") {
  CHECK(hf_place(HfFamily::llama, "block.11.attn.q_norm.gain", {64, 8})->name ==
        "model.layers.11.self_attn.q_norm.weight");
  CHECK(hf_place(HfFamily::llama, "block.11.attn.k_norm.gain", {64, 8})->name ==
        "model.layers.11.self_attn.k_norm.weight");
  CHECK_FALSE(hf_place(HfFamily::llama, "block.0.norm1.bias", {64, 8}));
  CHECK_FALSE(hf_place(HfFamily::llama, "embedding.position.weight", {64, 8}));
  CHECK_FALSE(hf_place(HfFamily::gpt2, "block.0.mlp.gate.weight", {64, 8}));
  CHECK_FALSE(hf_place(HfFamily::gpt2, "block.", {64, 8}));
}
