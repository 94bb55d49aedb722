#include "trireme/model/sharding.h"

#include <algorithm>

#include "catch.h"
#include "models.h"
#include "trireme/base/check.h"
#include "trireme/model/model.h"

using namespace trireme;

namespace {

using Sizes = std::array<int, k_n_axes>;

// Odd sizes everywhere: 7 kv heads of 3 query heads each, 13 features, 37 tokens.
ModelDeck odd_model() {
  ModelDeck m = llama_like();
  m.layers = 9;
  m.hidden = 11;
  m.heads = 21;
  m.kv_heads = 7;
  m.head_dim = 2;
  m.ffn = 13;
  m.vocab = 37;
  m.vocab_multiple = 1;
  return m;
}

ModelDeck odd_tied_model() {
  ModelDeck m = odd_model();
  m.norm = "layer";
  m.activation = "gelu_tanh";
  m.position = "learned";
  m.rope_scaling = "none";
  m.bias = "all";
  m.qk_norm = false;
  m.tie_embeddings = true;
  return m;
}

std::vector<Sizes> many_grids() {
  std::vector<Sizes> grids;
  for (int pp = 1; pp <= 4; ++pp) {
    for (int tp = 1; tp <= 7; ++tp) grids.push_back({pp, tp % 2 + 1, 1, tp});
  }
  grids.push_back({9, 1, 3, 7});
  return grids;
}

// How many holders of {pp, tp} have each element of one parameter, at replica (dp 0, cp 0).
std::vector<int> holders_of(const ParamSpec& spec, const Sizes& size, const Partition& partition) {
  const std::int64_t columns = spec.shape.columns();
  std::vector<int> n(static_cast<std::size_t>(spec.shape.count()), 0);
  for (int pp = 0; pp < size[0]; ++pp) {
    for (int tp = 0; tp < size[3]; ++tp) {
      const Box box = local_box(spec, {size, {pp, 0, 0, tp}}, partition);
      const std::int64_t first_column = spec.shape.rank == 2 ? box.offset[1] : 0;
      const std::int64_t n_columns = spec.shape.rank == 2 ? box.extent[1] : 1;
      for (std::int64_t r = 0; r < box.extent[0]; ++r) {
        for (std::int64_t c = 0; c < n_columns; ++c) {
          ++n[static_cast<std::size_t>((box.offset[0] + r) * columns + first_column + c)];
        }
      }
    }
  }
  return n;
}

int expected_holders(const ParamSpec& spec, const Sizes& size) {
  const int copies = spec.cut == Cut::none ? size[3] : 1;
  const bool two_ends = spec.layer == k_both_ends && size[0] > 1;
  return two_ends ? 2 * copies : copies;
}

}  // namespace

TEST_CASE("the boxes of all ranks tile every parameter of odd models on many grids") {
  for (const ModelDeck& deck : {odd_model(), odd_tied_model(), gpt2_like()}) {
    const Model model(deck);
    for (const Sizes& size : many_grids()) {
      if (size[0] > deck.layers || size[3] > deck.kv_heads) continue;
      const Partition partition = make_partition(static_cast<int>(deck.layers), size[0], 1, {});
      for (const ParamSpec& spec : model.table().all()) {
        INFO(spec.name << " on " << to_string(GridPoint{size, {}}));
        const int expected = expected_holders(spec, size);
        const std::vector<int> holders = holders_of(spec, size, partition);
        REQUIRE(std::count(holders.begin(), holders.end(), expected) == spec.shape.count());
      }
    }
  }
}

TEST_CASE("one holder among the tp and pp copies counts a parameter, and never two") {
  for (const ModelDeck& deck : {odd_model(), odd_tied_model()}) {
    const Model model(deck);
    for (const Sizes& size : many_grids()) {
      for (const int n_chunks : {1, 2}) {
        if (size[0] * n_chunks > deck.layers) continue;
        const Partition partition = make_partition(static_cast<int>(deck.layers), size[0], n_chunks, {});
        for (const ParamSpec& spec : model.table().all()) {
          INFO(spec.name << " on " << to_string(GridPoint{size, {}}) << " with " << n_chunks << " chunks");
          std::int64_t elements = 0;
          for (int pp = 0; pp < size[0]; ++pp) {
            for (int tp = 0; tp < size[3]; ++tp) {
              for (int chunk = 0; chunk < n_chunks; ++chunk) {
                const GridPoint point{size, {pp, 0, 0, tp}};
                if (counts(spec, point, partition, chunk)) elements += local_box(spec, point, partition).count();
              }
            }
          }
          REQUIRE(elements == spec.shape.count());
        }
      }
    }
  }
}

TEST_CASE("q, k and v of a rank belong to the same heads") {
  const ModelDeck deck = odd_model();
  const Model model(deck);
  const Partition partition = make_partition(9, 1, 1, {});
  for (int tp = 1; tp <= 7; ++tp) {
    for (int rank = 0; rank < tp; ++rank) {
      const auto rows = [&](const std::string& name) {
        for (const ParamSpec& spec : model.table().all()) {
          if (spec.name == name) return local_box(spec, {{1, 1, 1, tp}, {0, 0, 0, rank}}, partition);
        }
        throw std::logic_error("no parameter " + name);
      };
      const Box q = rows("block.0.attn.q.weight"), k = rows("block.0.attn.k.weight"),
                out = rows("block.0.attn.out.weight");
      CHECK(q.offset[0] == 3 * k.offset[0]);
      CHECK(q.extent[0] == 3 * k.extent[0]);
      CHECK(k.extent[0] % deck.head_dim == 0);
      CHECK(rows("block.0.attn.v.weight") == k);
      CHECK((out.offset[1] == q.offset[0] && out.extent[1] == q.extent[0]));
    }
  }
}

TEST_CASE("layers are dealt once, as evenly as whole layers allow, the remainder to the middle") {
  for (int n_layers = 1; n_layers <= 40; ++n_layers) {
    for (int n_stages = 1; n_stages <= 6; ++n_stages) {
      for (int n_chunks = 1; n_chunks <= 4; ++n_chunks) {
        const int n = n_stages * n_chunks;
        if (n > n_layers) continue;
        const Partition partition = make_partition(n_layers, n_stages, n_chunks, {});
        std::int64_t next = 0, least = n_layers, most = 0;
        for (int chunk = 0; chunk < n_chunks; ++chunk) {
          for (int stage = 0; stage < n_stages; ++stage) {
            const Range layers = partition.layers(stage, chunk);
            REQUIRE(layers.first == next);
            next = layers.last;
            least = std::min(least, layers.count());
            most = std::max(most, layers.count());
          }
        }
        REQUIRE(next == n_layers);
        REQUIRE(most - least <= 1);
      }
    }
  }
  const Partition seven = make_partition(7, 4, 1, {});
  CHECK(seven.layers(0, 0).count() == 2);
  CHECK(make_partition(6, 4, 1, {}).layers(0, 0).count() == 1);
  CHECK(make_partition(6, 4, 1, {}).layers(3, 0).count() == 1);
}

TEST_CASE("stated counts of layers are taken as they are, and must fit") {
  const Partition partition = make_partition(7, 2, 2, {1, 2, 3, 1});
  CHECK(partition.layers(0, 0) == Range{0, 1});
  CHECK(partition.layers(1, 0) == Range{1, 3});
  CHECK(partition.layers(0, 1) == Range{3, 6});
  CHECK(partition.layers(1, 1) == Range{6, 7});
  CHECK_THROWS_AS(make_partition(7, 2, 2, {1, 2, 3, 2}), std::logic_error);
  CHECK_THROWS_AS(make_partition(7, 2, 2, {3, 4}), std::logic_error);
}

TEST_CASE("the ends hold embedding and head, and a tied embedding lies at both") {
  const Model tied(odd_tied_model()), untied(odd_model());
  const Partition partition = make_partition(9, 3, 2, {});
  const auto n_holders = [&](const ParamSpec& spec) {
    int n = 0;
    for (int stage = 0; stage < 3; ++stage) {
      for (int chunk = 0; chunk < 2; ++chunk) n += holds(spec, stage, chunk, partition) ? 1 : 0;
    }
    return n;
  };
  for (const ParamSpec& spec : untied.table().all()) CHECK(n_holders(spec) == 1);
  for (const ParamSpec& spec : tied.table().all()) {
    CHECK(n_holders(spec) == (spec.name == "embedding.token.weight" ? 2 : 1));
  }
  CHECK(holds(tied.table()[tied.embedding().token()], 0, 0, partition));
  CHECK(holds(tied.table()[tied.embedding().token()], 2, 1, partition));
}
