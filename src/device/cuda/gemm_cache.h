#pragma once
// Algorithms of matrix products that were measured before, in a text file: one line per problem, appended as they are
// found. Several processes may write at once. A file that cannot be read or written is no error: the problem is
// measured again.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trireme {

// Everything that the choice depends on: operation, sizes, leading dimensions, dtypes, epilogue, alignment.
using GemmKey = std::array<std::int64_t, 16>;

struct GemmChoice {
  std::array<std::uint64_t, 8> algorithm{};  // cublasLtMatmulAlgo_t as the library packs it
  std::uint64_t workspace = 0;
  double milliseconds = 0;
};

class GemmCache {
 public:
  // An empty name keeps everything in memory.
  explicit GemmCache(const std::string& file_name);
  std::optional<GemmChoice> find(const GemmKey& key) const;
  void put(const GemmKey& key, const GemmChoice& choice);
  const std::string& path() const { return path_; }

 private:
  void read();

  std::string path_;
  std::map<GemmKey, GemmChoice> choices_;
};

}  // namespace trireme
