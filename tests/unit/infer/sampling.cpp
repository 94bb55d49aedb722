#include "trireme/infer/sampling.h"

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "catch.h"

using namespace trireme;

namespace {

// Probabilities 0.1, 0.4, 0.2, 0.3 at temperature 1.
const std::vector<double> k_logits = {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)};

std::array<double, 4> frequencies(const Sampling& sampling) {
  std::array<double, 4> counts{};
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) counts[static_cast<std::size_t>(choose(k_logits, sampling, (i + 0.5) / n))] += 1.0 / n;
  return counts;
}

}  // namespace

TEST_CASE("temperature 0 takes the most probable token, the first among equals") {
  Sampling greedy;
  greedy.temperature = 0;
  CHECK(choose(k_logits, greedy, 0.99) == 1);
  CHECK(choose(std::vector<double>{1, 3, 3}, greedy, 0.99) == 1);
}

TEST_CASE("tokens come as often as they are probable") {
  const auto f = frequencies({});
  CHECK(f[0] == Approx(0.1).margin(1e-4));
  CHECK(f[1] == Approx(0.4).margin(1e-4));
  CHECK(f[2] == Approx(0.2).margin(1e-4));
  CHECK(f[3] == Approx(0.3).margin(1e-4));
  Sampling cold;
  cold.temperature = 0.5;  // probabilities squared: 1, 16, 4, 9 of 30
  CHECK(frequencies(cold)[1] == Approx(16.0 / 30).margin(1e-4));
}

TEST_CASE("top-k and top-p leave the most probable tokens, in proportion") {
  Sampling top_k, top_p, both;
  top_k.top_k = 2;
  CHECK(frequencies(top_k)[1] == Approx(4.0 / 7).margin(1e-4));
  CHECK(frequencies(top_k)[2] == 0);
  top_p.top_p = 0.75;  // 0.4 + 0.3 is not enough, 0.2 more is
  CHECK(frequencies(top_p)[2] == Approx(2.0 / 9).margin(1e-4));
  CHECK(frequencies(top_p)[0] == 0);
  top_p.top_p = 1e-9;
  CHECK(frequencies(top_p)[1] == Approx(1));
  both.top_k = 3;
  both.top_p = 0.5;  // of what top-k leaves
  CHECK(frequencies(both)[1] == Approx(4.0 / 7).margin(1e-4));
}

TEST_CASE("the numbers of a text depend on seed, prompt and place, and fill the unit interval") {
  const std::vector<std::int32_t> prompt{1, 2, 3}, other{1, 2, 4};
  Sampling sampling, reseeded;
  reseeded.seed = 2;
  CHECK(uniform_of(sampling, prompt, 5) == uniform_of(sampling, prompt, 5));
  CHECK(uniform_of(sampling, prompt, 5) != uniform_of(sampling, prompt, 6));
  CHECK(uniform_of(sampling, prompt, 5) != uniform_of(sampling, other, 5));
  CHECK(uniform_of(sampling, prompt, 5) != uniform_of(reseeded, prompt, 5));
  double sum = 0, squares = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = uniform_of(sampling, prompt, i);
    REQUIRE((u >= 0 && u < 1));
    sum += u;
    squares += u * u;
  }
  CHECK(sum / 10000 == Approx(0.5).margin(0.01));
  CHECK(squares / 10000 == Approx(1.0 / 3).margin(0.01));
}
