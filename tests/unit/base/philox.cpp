#include "trireme/base/philox.h"

#include <vector>

#include "catch.h"

using namespace trireme;

namespace {

void check_words(const Philox4& w, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  CHECK(w.x[0] == a);
  CHECK(w.x[1] == b);
  CHECK(w.x[2] == c);
  CHECK(w.x[3] == d);
}

}  // namespace

TEST_CASE("Philox gives the known answers of its authors") {
  check_words(philox({{0, 0, 0, 0}}, 0, 0), 0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U);
  check_words(philox({{~0U, ~0U, ~0U, ~0U}}, ~0U, ~0U), 0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU);
  check_words(philox({{0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}}, 0xa4093822U, 0x299f31d0U), 0xd16cfe09U,
              0x94fdccebU, 0x5001e420U, 0x24126ea1U);
}

TEST_CASE("words are uniform over 256 bins") {
  constexpr int n = 1 << 18;
  std::vector<int> low(256), high(256);

  for (int i = 0; i < n; ++i) {
    const std::uint32_t word = random_word({42, stream_of("test"), 3}, static_cast<std::uint64_t>(i));
    ++low[word & 255U];
    ++high[word >> 24];
  }

  // chi squared with 255 degrees of freedom: mean 255, deviation 22.6
  const auto chi_squared = [](const std::vector<int>& bins) {
    double sum = 0;
    for (const int count : bins) sum += (count - n / 256.0) * (count - n / 256.0) / (n / 256.0);
    return sum;
  };
  CHECK(chi_squared(low) < 255 + 5 * 22.6);
  CHECK(chi_squared(low) > 255 - 5 * 22.6);
  CHECK(chi_squared(high) < 255 + 5 * 22.6);
  CHECK(chi_squared(high) > 255 - 5 * 22.6);
}

TEST_CASE("normal numbers have mean 0, variance 1, the tails of a normal and no correlation in a pair") {
  constexpr int n = 1 << 18;
  double sum = 0, squares = 0, fourth = 0, products = 0;

  for (std::uint64_t i = 0; i < n; i += 2) {
    const double a = random_normal({7, 1, 0}, i), b = random_normal({7, 1, 0}, i + 1);
    sum += a + b;
    squares += a * a + b * b;
    fourth += a * a * a * a + b * b * b * b;
    products += a * b;
  }

  CHECK(std::abs(sum / n) < 5.0 / 512);               // deviation 1 / sqrt(n)
  CHECK(std::abs(squares / n - 1) < 5 * 1.42 / 512);  // sqrt(2 / n)
  CHECK(std::abs(fourth / n - 3) < 5 * 9.8 / 512);    // sqrt(96 / n)
  CHECK(std::abs(products / (n / 2)) < 5.0 / 362);
}

TEST_CASE("seed, stream, step and index all change the word") {
  const std::uint32_t word = random_word({1, 2, 3}, 4);

  CHECK(word != random_word({2, 2, 3}, 4));
  CHECK(word != random_word({1ULL << 32 | 1, 2, 3}, 4));
  CHECK(word != random_word({1, 3, 3}, 4));
  CHECK(word != random_word({1, 2, 4}, 4));
  CHECK(word != random_word({1, 2, 3}, 5));
  CHECK(word != random_word({1, 2, 3}, 4 + (4ULL << 32)));
}

TEST_CASE("different names have different streams") {
  CHECK(stream_of("") == 2166136261U);
  CHECK(stream_of("a") == 0xe40c292cU);  // FNV-1a of "a"
  CHECK(stream_of("block.1.attn.q") != stream_of("block.2.attn.q"));
}
