#pragma once
// Every parameter of the model, once: name, global shape, how tp cuts it, who owns it, how it starts. The table is the
// same on every rank and knows no grid. Init, training, checkpoint, resharding, Hugging Face conversion and planning
// read it.

#include <span>
#include <string>
#include <vector>

#include "trireme/base/shape.h"

namespace trireme {

enum class Cut : std::int8_t { none = -1, rows = 0, columns = 1 };  // the dimension that tp divides
enum class Init : std::uint8_t { zeros, ones, normal };
// A parameter that every tp rank holds whole may still see only part of the work on each: its gradient is then summed
// over tp.
enum class Partial : std::uint8_t {
  never,   // every tp rank computes the whole gradient, or the parameter is cut
  tokens,  // under sequence parallelism each rank saw its tokens (norms, biases behind the sum)
  heads,   // each rank saw its heads (gains shared by all heads)
};

inline constexpr int k_first_layer = -1;              // owner of what comes before block 0
inline constexpr int k_last_layer = 1 << 20;          // owner of what comes after the last block
inline constexpr int k_both_ends = k_last_layer + 1;  // tied embedding: first and last stage hold it

struct ParamSpec {
  std::string name;  // "block.7.attn.q.weight": log label and seed of its values
  Shape shape;       // GLOBAL, rank 1 or 2
  Cut cut = Cut::none;
  std::int64_t cut_unit = 1;  // rows (columns) that stay together: head_dim for k and v, head_dim * group for q
  int layer = 0;              // block index or one of the constants above
  Init init = Init::normal;
  double init_std = 0.02;
  bool decay = true;
  Partial partial = Partial::never;
  bool joined = false;  // lies directly behind the one added before it: q, k, v (gate, up) are viewed as one matrix
  std::int64_t valid_rows = 0;  // rows from here on are padding and start at zero; 0: none
  std::string stack;  // checkpoint path shared by all blocks: "block.attn.q.weight"; equals name outside blocks
};

using ParamId = int;

class ParamTable {
 public:
  ParamId add(ParamSpec spec);
  const ParamSpec& operator[](ParamId id) const { return specs_[static_cast<std::size_t>(id)]; }
  std::span<const ParamSpec> all() const { return specs_; }
  int size() const { return static_cast<int>(specs_.size()); }
  std::int64_t n_elements() const;

 private:
  std::vector<ParamSpec> specs_;
};

}  // namespace trireme
