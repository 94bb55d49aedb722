#include "trireme/data/sampler.h"

#include <cmath>
#include <set>
#include <vector>

#include "catch.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

// Token i of the source is i.
class Counting final : public TokenSource {
 public:
  explicit Counting(std::int64_t n) : n_(n) {}
  std::int64_t n_tokens() const override { return n_; }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    REQUIRE(first >= 0);
    REQUIRE(first + static_cast<std::int64_t>(tokens.size()) <= n_);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(first++);
  }
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const override {
    std::vector<std::int64_t> sevens;  // a document is seven tokens
    for (std::int64_t i = first; i < first + count; ++i) {
      if (i % 7 == 0) sevens.push_back(i);
    }
    return sevens;
  }
  std::string describe() const override { return "counting"; }
  std::string fingerprint() const override { return ""; }

 private:
  std::int64_t n_;
};

bool is_permutation_of_all(std::uint64_t seed, std::int64_t epoch, std::int64_t n) {
  std::vector<bool> seen(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t place = shuffled(seed, epoch, i, n);
    if (place < 0 || place >= n || seen[static_cast<std::size_t>(place)]) return false;
    seen[static_cast<std::size_t>(place)] = true;
  }
  return true;
}

// Chi-square of `counts` against equal expectation, in standard deviations from its mean.
double excess(const std::vector<double>& counts, double n_draws) {
  const double expected = n_draws / static_cast<double>(counts.size()),
               freedom = static_cast<double>(counts.size()) - 1;
  double chi2 = 0;
  for (const double count : counts) chi2 += (count - expected) * (count - expected) / expected;
  return (chi2 - freedom) / std::sqrt(2 * freedom);
}

}  // namespace

TEST_CASE("shuffled is a bijection for every n up to 2000") {
  for (std::int64_t n = 1; n <= 2000; ++n) {
    INFO("n = " << n);
    CHECK(is_permutation_of_all(42, n % 5, n));
  }
}

TEST_CASE("shuffled never repeats itself and stays inside for large n") {
  for (const std::int64_t n : {1'000'003LL, (1LL << 30) + 1, (1LL << 40) - 1, 4'611'686'018'427'387'903LL}) {
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < 20000; ++i) {
      const std::int64_t place = shuffled(1, 0, i * (n / 20000), n);
      REQUIRE(place >= 0);
      REQUIRE(place < n);
      seen.insert(place);
    }
    CHECK(seen.size() == 20000);
  }
}

TEST_CASE("each item lands everywhere equally often over the epochs") {
  for (const std::int64_t n : {2, 3, 5, 7, 16, 31}) {
    for (const std::int64_t item : {std::int64_t{0}, n / 2, n - 1}) {
      std::vector<double> counts(static_cast<std::size_t>(n));
      for (std::int64_t epoch = 0; epoch < 8000; ++epoch)
        counts[static_cast<std::size_t>(shuffled(3, epoch, item, n))] += 1;
      INFO("n = " << n << ", item = " << item);
      CHECK(excess(counts, 8000) < 5);
    }
  }
}

TEST_CASE("pairs of neighbours land everywhere equally often") {
  constexpr std::int64_t n = 6;
  std::vector<double> counts(n * (n - 1));
  for (std::int64_t epoch = 0; epoch < 20000; ++epoch) {
    const std::int64_t a = shuffled(3, epoch, 2, n), b = shuffled(3, epoch, 3, n);
    counts[static_cast<std::size_t>(a * (n - 1) + (b > a ? b - 1 : b))] += 1;
  }

  CHECK(excess(counts, 20000) < 5);
}

TEST_CASE("epochs and seeds shuffle differently") {
  int same_epoch = 0, same_seed = 0, fixed = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t place = shuffled(1, 0, i, 1000);
    same_epoch += place == shuffled(1, 1, i, 1000) ? 1 : 0;
    same_seed += place == shuffled(2, 0, i, 1000) ? 1 : 0;
    fixed += place == i ? 1 : 0;
  }

  CHECK(same_epoch < 10);
  CHECK(same_seed < 10);
  CHECK(fixed < 10);
}

TEST_CASE("an epoch shows every chunk of the data once") {
  const Counting source(103);
  const Sampler sampler(source, 10, 5);
  std::vector<std::int32_t> tokens(11);

  CHECK(sampler.samples_per_epoch() == 10);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int32_t> starts;
    for (std::int64_t i = 0; i < 10; ++i) {
      sampler.read(10 * epoch + i, tokens);
      CHECK(tokens[10] == tokens[0] + 10);
      CHECK(tokens[0] % 10 == 0);
      starts.insert(tokens[0]);
      CHECK(sampler.epoch_of(10 * epoch + i) == epoch);
    }
    CHECK(starts.size() == 10);
  }
}

TEST_CASE("data of exactly one sample works and one token less is refused") {
  const Counting enough(11), short_by_one(10);
  std::vector<std::int32_t> tokens(11);

  Sampler(enough, 10, 5).read(123, tokens);

  CHECK(tokens[0] == 0);
  CHECK_THROWS_WITH(Sampler(short_by_one, 10, 5),
                    Catch::Matchers::Contains("10 tokens") && Catch::Matchers::Contains("= 11"));
}

TEST_CASE("the document starts of a sample fit its tokens and begin with 0") {
  const Counting source(103);
  const Sampler sampler(source, 10, 5);
  std::vector<std::int32_t> tokens(11);

  for (std::int64_t sample = 0; sample < 20; ++sample) {
    sampler.read(sample, tokens);
    std::vector<std::int32_t> expected{0};
    for (std::int32_t i = 1; i < 10; ++i) {
      if (tokens[static_cast<std::size_t>(i)] % 7 == 0) expected.push_back(i);
    }
    CHECK(sampler.document_starts(sample) == expected);
  }
}

}  // namespace trireme
