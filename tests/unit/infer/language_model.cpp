#include "trireme/infer/language_model.h"

#include <algorithm>
#include <cmath>

#include "catch.h"
#include "trireme/infer/generator.h"
#include "trireme/io/hf_files.h"

using namespace trireme;

namespace {

const std::vector<std::string> k_families = {"gpt2",         "gpt_neox", "gpt_neox_serial", "llama",
                                             "llama31_tied", "mistral",  "qwen2",           "qwen3"};

std::string fixture(const std::string& family) {
  return std::string(TRIREME_SOURCE_DIR) + "/tests/parity/hf/" + family;
}

// A model of the fixtures on one rank.
struct Loaded {
  Loaded(const std::string& family, const std::string& compute, DType dtype, const ModelMemory& memory)
      : weights(
            weights_from(find_weights(fixture(family)), std::vector<std::string>{"precision.compute=" + compute}, 1)),
        grid(make_self_communicator(*backend), {1, 1, 1, 1}),
        model(weights.deck.model, dtype, grid, *backend, DeviceKind::cpu, memory) {
    model.load(weights, *control);
  }
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  std::unique_ptr<Communicator> control = make_self_communicator(*backend);
  Weights weights;
  ProcessGrid grid;
  LanguageModel model;
};

std::vector<std::int32_t> ids_in(const HfFiles& files, const std::string& name) {
  std::vector<std::int32_t> ids;
  for (const double id : files.values(name)) ids.push_back(static_cast<std::int32_t>(id));
  return ids;
}

double relative(const std::vector<double>& ours, const std::vector<double>& theirs) {
  REQUIRE(ours.size() == theirs.size());
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    worst = std::max(worst, std::abs(ours[i] - theirs[i]));
    largest = std::max(largest, std::abs(theirs[i]));
  }
  return worst / largest;
}

// The logits of all tokens, read in pieces of the given sizes (the last one again and again).
std::vector<double> in_pieces(LanguageModel& model, std::int64_t slot, const std::vector<std::int32_t>& ids,
                              const std::vector<std::size_t>& sizes) {
  const std::vector<std::int64_t> slots{slot};
  std::vector<double> all;
  model.forget(slot);
  for (std::size_t first = 0, i = 0; first < ids.size(); ++i) {
    const std::size_t n = std::min(sizes[std::min(i, sizes.size() - 1)], ids.size() - first);
    const auto part = model.pass(slots, std::span(ids).subspan(first, n), LogitRows::all, Cache::used);
    all.insert(all.end(), part.begin(), part.end());
    first += n;
  }
  return all;
}

}  // namespace

TEST_CASE("logits are those of transformers, in fp64 and fp32") {
  for (const std::string& family : k_families) {
    INFO(family);
    const HfFiles expected(fixture(family) + "/expected.safetensors");
    std::vector<std::int32_t> ids = ids_in(expected, "input_ids");
    ids.resize(48);
    const std::vector<std::int64_t> slot{0};
    Loaded wide(family, "fp64", DType::f64, {1, 48, 48, 48}), narrow(family, "fp32", DType::f32, {1, 48, 48, 48});

    const auto in_fp64 = wide.model.pass(slot, ids, LogitRows::all, Cache::bypassed);
    const auto in_fp32 = narrow.model.pass(slot, ids, LogitRows::all, Cache::bypassed);

    CHECK(relative(in_fp64, expected.values("logits")) < 1e-12);
    CHECK(relative(in_fp32, expected.values("logits")) < 2e-5);
  }
}

TEST_CASE("logits with a cache are those without, however the text is cut and whatever else is in the cache") {
  for (const std::string& family : k_families) {
    INFO(family);
    const HfFiles expected(fixture(family) + "/expected.safetensors");
    std::vector<std::int32_t> ids = ids_in(expected, "input_ids");
    const std::vector<std::int32_t> other(ids.begin() + 48, ids.end());
    ids.resize(48);
    Loaded loaded(family, "fp64", DType::f64, {3, 48, 48, 48});
    const std::vector<std::int64_t> slot{0};
    const auto whole = loaded.model.pass(slot, ids, LogitRows::all, Cache::bypassed);
    in_pieces(loaded.model, 0, other, {48});
    in_pieces(loaded.model, 2, other, {48});

    CHECK(relative(in_pieces(loaded.model, 1, ids, {1}), whole) < 1e-12);
    CHECK(relative(in_pieces(loaded.model, 1, ids, {7, 20, 1, 1, 3}), whole) < 1e-12);
    CHECK(loaded.model.length(1) == 48);
  }
}

TEST_CASE("texts of different lengths side by side do not disturb each other") {
  const HfFiles expected(fixture("mistral") + "/expected.safetensors");
  const std::vector<std::int32_t> ids = ids_in(expected, "input_ids");
  Loaded loaded("mistral", "fp64", DType::f64, {2, 48, 48, 48});
  const std::vector<std::int64_t> both{0, 1}, one{0}, two{1};
  loaded.model.pass(one, std::span(ids).subspan(0, 20), LogitRows::last, Cache::used);
  loaded.model.pass(two, std::span(ids).subspan(48, 5), LogitRows::last, Cache::used);
  std::vector<double> together;
  for (std::size_t i = 0; i < 4; ++i)
    together =
        loaded.model.pass(both, std::vector<std::int32_t>{ids[20 + i], ids[53 + i]}, LogitRows::last, Cache::used);

  auto apart = loaded.model.pass(one, std::span(ids).subspan(0, 24), LogitRows::last, Cache::bypassed);
  const auto second = loaded.model.pass(two, std::span(ids).subspan(48, 9), LogitRows::last, Cache::bypassed);
  apart.insert(apart.end(), second.begin(), second.end());

  CHECK(relative(together, apart) < 1e-12);
}

TEST_CASE("greedy texts are those of transformers, alone and in any batch") {
  for (const std::string& family : k_families) {
    INFO(family);
    const HfFiles expected(fixture(family) + "/expected.safetensors");
    const std::vector<std::int32_t> text = ids_in(expected, "greedy"), ids = ids_in(expected, "input_ids");
    const std::vector<std::int32_t> prompt(text.begin(), text.begin() + 8);
    GenerateOptions options;
    options.sampling.temperature = 0;
    options.tokens = 16;
    Loaded loaded(family, "fp32", DType::f32, {3, 48, 16, 3});
    std::vector<std::vector<std::int32_t>> prompts{
        {ids.begin() + 48, ids.begin() + 60}, prompt, {ids[3]}, prompt, {ids[4], ids[9]}};
    std::vector<std::vector<std::int32_t>> streamed(prompts.size());

    const std::vector<Continuation> results =
        generate(loaded.model, prompts, options, [&](std::size_t i, std::int32_t id) { streamed[i].push_back(id); });

    for (const std::size_t i : {std::size_t{1}, std::size_t{3}})
      CHECK(results[i].ids == std::vector<std::int32_t>(text.begin() + 8, text.end()));
    for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(streamed[i] == results[i].ids);
  }
}

TEST_CASE("a text ends with the end token, and a seed decides what is said") {
  const HfFiles expected(fixture("llama") + "/expected.safetensors");
  const std::vector<std::int32_t> text = ids_in(expected, "greedy");
  const std::vector<std::vector<std::int32_t>> prompts{{text.begin(), text.begin() + 8}};
  Loaded loaded("llama", "fp32", DType::f32, {1, 48, 16, 1});
  const auto silent = [](std::size_t, std::int32_t) {};
  GenerateOptions greedy;
  greedy.sampling.temperature = 0;
  greedy.tokens = 16;
  greedy.end = text[8 + 5];
  const Continuation ended = generate(loaded.model, prompts, greedy, silent)[0];
  CHECK(ended.ended == Ended::end_token);
  CHECK(ended.ids.size() ==
        static_cast<std::size_t>(std::find(text.begin() + 8, text.end(), *greedy.end) - text.begin() - 8));

  GenerateOptions chance;
  chance.tokens = 16;
  const auto said = [&](std::uint64_t seed) {
    chance.sampling.seed = seed;
    return generate(loaded.model, prompts, chance, silent)[0].ids;
  };
  CHECK(said(1) == said(1));
  CHECK(said(1) != said(2));
}

TEST_CASE("more tokens than learned positions are refused") {
  CHECK_THROWS_WITH(Loaded("gpt2", "fp32", DType::f32, {1, 65, 8, 1}),
                    Catch::Matchers::Contains("64 learned positions"));
  CHECK_NOTHROW(Loaded("llama", "fp32", DType::f32, {1, 1000, 8, 1}));
}
