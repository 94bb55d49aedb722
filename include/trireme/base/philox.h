#pragma once
// Counter-based random numbers: Philox-4x32-10 (Salmon et al., SC'11, section 3.3). A value is a pure function of
// (seed, stream, step, index), never of a rank, so every grid sees the same weights and the same dropout.
// Header-only and constexpr: CUDA kernels use the very same functions (nvcc --expt-relaxed-constexpr).

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace trireme {

struct Philox4 {
  std::uint32_t x[4];
};

constexpr Philox4 philox(Philox4 c, std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ULL * c.x[0], p1 = 0xCD9E8D57ULL * c.x[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.x[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.x[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

// What a random number is for: the key of Philox is the seed, the counter is (index, stream, step).
struct RandomKey {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  // stream_of("block.7.attn.q"), stream_of("dropout.block.7.mlp"), ...
  std::uint32_t step = 0;
};

// FNV-1a of a name: the stable id of a tensor or purpose.
constexpr std::uint32_t stream_of(std::string_view name) {
  std::uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

// Four words per index; index counts groups of the caller's choice.
constexpr Philox4 random_words(const RandomKey& key, std::uint64_t index) {
  return philox({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), key.stream, key.step}},
                static_cast<std::uint32_t>(key.seed), static_cast<std::uint32_t>(key.seed >> 32));
}

// Uniform word of element `index`: word index % 4 of group index / 4, so that kernels draw four elements at once.
constexpr std::uint32_t random_word(const RandomKey& key, std::uint64_t index) {
  return random_words(key, index / 4).x[index % 4];
}

// The two uniforms in (0, 1) from which normal number `index` is made. Elements come in pairs (2j, 2j+1) that share
// them.
struct UniformPair {
  double u, v;
};
constexpr UniformPair random_uniforms(const RandomKey& key, std::uint64_t index) {
  const Philox4 w = random_words(key, index / 4);
  const int pair = static_cast<int>((index / 2) % 2) * 2;
  return {(w.x[pair] + 0.5) * (1.0 / 4294967296.0), (w.x[pair + 1] + 0.5) * (1.0 / 4294967296.0)};
}

// Standard normal of element `index` by Box-Muller, in double so that host and device agree to rounding.
inline double random_normal(const RandomKey& key, std::uint64_t index) {
  const auto [u, v] = random_uniforms(key, index);
  const double r = std::sqrt(-2.0 * std::log(u)), angle = 6.283185307179586 * v;
  return index % 2 == 0 ? r * std::cos(angle) : r * std::sin(angle);
}

}  // namespace trireme
