// Corpora with weights: exact counts, passes, cuts by documents.

#include <map>
#include <numeric>
#include <set>

#include "catch.h"
#include "help.h"
#include "trireme/data/sampler.h"

namespace trireme {

using Catch::Matchers::Contains;

namespace {

// Files in which token i is base + i; one document.
std::string count_up(const TemporaryFolder& folder, const std::string& name, int base, int n) {
  std::vector<std::uint16_t> ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), static_cast<std::uint16_t>(base));
  folder.write(name + ".bin", bytes_of(ids));
  return folder / name;
}

DataDeck blend_of(const TemporaryFolder& folder, std::vector<double> weights) {
  DataDeck data = deck_of("tokens", {count_up(folder, "a", 0, 41), count_up(folder, "b", 1000, 81)});
  data.weights = std::move(weights);
  return data;
}

}  // namespace

TEST_CASE("shares add up and are within one of the exact ones") {
  for (const auto& weights : {std::vector<double>{1, 1, 1}, {0.7, 0.2, 0.1}, {1e-3, 1}, {5}, {3, 3, 1, 1, 1e9}}) {
    for (const std::int64_t total : {1LL, 7LL, 100LL, 123456789012LL}) {
      const auto counts = shares(weights, total);
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == total);
      for (std::size_t i = 0; i < counts.size(); ++i)
        CHECK(std::abs(static_cast<double>(counts[i]) - weights[i] / sum * static_cast<double>(total)) < 1.001);
    }
  }
}

TEST_CASE("every epoch draws exactly the share of each corpus, and all of a corpus before anything again") {
  const TemporaryFolder folder;
  const TokenSplit split = open_all(blend_of(folder, {3, 1}));  // 10 and 20 samples of 4; shares 23 and 7 (22.5, 7.5)
  const Sampler sampler(*split.training, 4, 9);
  std::vector<std::int32_t> tokens(5);
  std::map<std::int32_t, int> seen;  // by first token

  REQUIRE(sampler.samples_per_epoch() == 30);
  const auto uses = sampler.uses();
  CHECK(uses[0].held == 10);
  CHECK(uses[1].held == 20);
  CHECK(uses[0].per_epoch + uses[1].per_epoch == 30);
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    std::int64_t from_a = 0;
    for (std::int64_t i = 0; i < 30; ++i) {
      sampler.read(30 * epoch + i, tokens);
      CHECK(tokens[4] == tokens[0] + 4);  // never over the end of a corpus
      CHECK(sampler.corpus_of(30 * epoch + i) == (tokens[0] < 1000 ? 0U : 1U));
      from_a += tokens[0] < 1000 ? 1 : 0;
      ++seen[tokens[0]];
    }
    CHECK(from_a == uses[0].per_epoch);
    std::map<bool, std::set<int>> counts;
    for (std::int32_t place = 0; place < 40; place += 4) counts[false].insert(seen[place]);
    for (std::int32_t place = 1000; place < 1080; place += 4) counts[true].insert(seen[place]);
    for (const auto& [corpus, different] : counts) CHECK(*different.rbegin() - *different.begin() <= 1);
  }
}

TEST_CASE("shares that are what the corpora hold give an epoch with every sample once") {
  const TemporaryFolder folder;
  const TokenSplit split = open_all(blend_of(folder, {1, 2}));
  const Sampler sampler(*split.training, 4, 9);
  std::vector<std::int32_t> tokens(5);
  std::set<std::int32_t> firsts;

  for (std::int64_t i = 0; i < 30; ++i) {
    sampler.read(60 + i, tokens);
    firsts.insert(tokens[0]);
  }

  CHECK(firsts.size() == 30);
}

TEST_CASE("repeats are announced with their number, or refused") {
  const TemporaryFolder folder;
  const TokenSplit split = open_all(blend_of(folder, {3, 1}));
  const Sampler sampler(*split.training, 4, 9);

  const auto lines = describe_passes(sampler, 60, "announce");
  CHECK_THAT(lines[0], Contains("4.6 passes over") &&
                           Contains("a: 75 % of the samples, 23 an epoch of the 10 it holds") && Contains("(repeats)"));
  CHECK_THAT(lines[1], Contains("0.7 passes") && !Contains("repeats"));
  CHECK_THAT(error_of([&] { describe_passes(sampler, 60, "refuse"); }), Contains("3: ") && Contains("4.6 passes"));
  CHECK_NOTHROW(describe_passes(sampler, 12, "refuse"));
}

TEST_CASE("a weight that gives nothing and a corpus that is too short are refused by name") {
  const TemporaryFolder folder;
  DataDeck data = blend_of(folder, {1e-6, 1});
  const auto sample = [&] {
    const TokenSplit split = open_all(data);
    Sampler(*split.training, 4, 9);
  };

  CHECK_THAT(error_of(sample), Contains("a none of the 30 samples"));
  data.weights = {1, 1};
  count_up(folder, "a", 0, 4);
  CHECK_THAT(error_of(sample), Contains("a holds 4 tokens") && Contains("= 5"));
}

TEST_CASE("training, validation and test are whole documents of every corpus") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    std::vector<std::int32_t> lengths(10, 10);
    lengths[5] = 23;
    std::vector<std::uint16_t> ids(113, static_cast<std::uint16_t>(name[0]));
    folder.write(std::string(name) + ".bin", bytes_of(ids));
    folder.write(std::string(name) + ".idx", index_of(8, 2, lengths).bytes());
  }
  DataDeck data = deck_of("tokens", {folder / "a", folder / "b"});
  data.weights = {2, 1};
  data.validation_fraction = 0.3;
  data.test_fraction = 0.1;

  const TokenSplit split = open_all(data);

  // Of 113 tokens the last 11 would be the test and 33 before them validation: documents begin at 103 and 73.
  CHECK(split.training->n_tokens() == 2 * 73);
  CHECK(split.validation->n_tokens() == 2 * 30);
  CHECK(split.test->n_tokens() == 2 * 10);
  CHECK(split.validation->document_starts(0, 60) == std::vector<std::int64_t>{0, 10, 20, 30, 40, 50});
  CHECK(split.validation->corpora()[1].weight == 1);
  CHECK(split.training->fingerprint() != split.validation->fingerprint());
  CHECK_THAT(split.training->fingerprint(), Contains("2 of ") && Contains("1 of "));
  data.weights.clear();
  CHECK(open_all(data).test->n_tokens() == 20);  // of 226: two documents of b
}

}  // namespace trireme
