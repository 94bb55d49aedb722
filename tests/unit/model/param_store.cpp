#include "trireme/model/param_store.h"

#include <algorithm>
#include <memory>
#include <set>

#include "catch.h"
#include "models.h"
#include "trireme/base/check.h"
#include "trireme/model/model.h"

using namespace trireme;

namespace {

// A store for one rank of a grid, with memory that exists.
struct Held {
  Held(const ModelDeck& deck, const GridPoint& here, const Partition& partition, const ParamStoreOptions& options)
      : model(deck),
        backend(make_cpu_backend(1)),
        arena(*backend, "weights", std::size_t{1} << 22),
        store(model.table(), here, partition, options, arena) {}
  Model model;
  std::unique_ptr<Backend> backend;
  Arena arena;
  ParamStore store;
};

ParamStoreOptions small_buckets(std::int64_t bytes) {
  ParamStoreOptions options;
  options.bucket_bytes = bytes;
  return options;
}

struct Case {
  ModelDeck deck;
  GridPoint here;
  int n_chunks;
};

std::vector<Case> many_cases() {
  std::vector<Case> cases;
  for (const ModelDeck& small : {gpt2_like(), llama_like(), window_like()}) {
    ModelDeck deck = small;
    deck.layers = 4;
    for (int stage = 0; stage < 2; ++stage) {
      for (int tp = 0; tp < 2; ++tp) {
        for (const int n_chunks : {1, 2}) cases.push_back({deck, {{2, 3, 2, 2}, {stage, 1, 1, tp}}, n_chunks});
      }
    }
    cases.push_back({deck, {{1, 1, 1, 1}, {}}, 1});
  }
  return cases;
}

template <class Check>
void for_every_store(const Check& check) {
  for (const Case& which : many_cases()) {
    for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{2000}, std::int64_t{1} << 30}) {
      const Partition partition = make_partition(4, which.here.n(Axis::pp), which.n_chunks, {});
      const Held held(which.deck, which.here, partition, small_buckets(bytes));
      INFO(to_string(which.here) << ", stage " << which.here.at(Axis::pp) << ", " << which.n_chunks
                                 << " chunks, buckets of " << bytes);
      check(held.store, partition);
    }
  }
}

}  // namespace

TEST_CASE("the parameters of a bucket agree on everything that is done to the bucket as a whole") {
  for_every_store([](const ParamStore& store, const Partition& partition) {
    for (const Bucket& bucket : store.buckets()) {
      REQUIRE(!bucket.parts.empty());
      for (const BucketPart& part : bucket.parts) {
        const ParamSpec& spec = store.table()[part.id];
        INFO(spec.name);
        REQUIRE(holds(spec, store.here().at(Axis::pp), bucket.chunk, partition));
        REQUIRE(spec.decay == bucket.decay);
        REQUIRE(counts(spec, store.here(), partition, bucket.chunk) == bucket.counts);
        REQUIRE((spec.partial != Partial::never) == bucket.partial);
        REQUIRE((spec.layer == k_both_ends && partition.n_stages > 1) == bucket.at_both_ends);
        REQUIRE((spec.layer < 0 || spec.layer >= k_last_layer) == bucket.accumulates);
      }
    }
  });
}

TEST_CASE("every held parameter lies in exactly one bucket") {
  for_every_store([](const ParamStore& store, const Partition& partition) {
    std::multiset<ParamId> found;
    for (const Bucket& bucket : store.buckets()) {
      for (const BucketPart& part : bucket.parts) found.insert(part.id);
    }
    for (ParamId id = 0; id < store.table().size(); ++id) {
      bool held = false;
      for (int chunk = 0; chunk < partition.n_chunks; ++chunk) {
        held = held || holds(store.table()[id], store.here().at(Axis::pp), chunk, partition);
      }
      REQUIRE(found.count(id) == (held ? 1 : 0));
      REQUIRE(store.holds(id) == held);
    }
  });
}

TEST_CASE("parts and gaps tile a bucket, which all replicas can cut into equal ranges") {
  for_every_store([](const ParamStore& store, const Partition&) {
    for (const Bucket& bucket : store.buckets()) {
      std::vector<Range> ranges = bucket.gaps;
      for (const BucketPart& part : bucket.parts) ranges.push_back({part.offset, part.offset + part.box.count()});
      std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
      std::int64_t next = 0;
      for (const Range& range : ranges) {
        REQUIRE(range.first == next);
        REQUIRE(range.count() > 0);
        next = range.last;
      }
      REQUIRE(next == bucket.size);
      const int replicas = store.here().n(Axis::dp) * store.here().n(Axis::cp);
      REQUIRE(bucket.size % (64 * replicas) == 0);
      REQUIRE((bucket.value.count() == bucket.size && bucket.grad.count() == bucket.size));
    }
  });
}

TEST_CASE("a bucket is complete no earlier than each of its parameters") {
  for_every_store([](const ParamStore& store, const Partition&) {
    for (const Bucket& bucket : store.buckets()) {
      for (const BucketPart& part : bucket.parts) {
        const int layer = store.table()[part.id].layer;
        REQUIRE(bucket.lowest_layer <= (layer == k_both_ends ? k_first_layer : layer));
      }
    }
  });
}

TEST_CASE("q, k, v lie behind each other and are seen as one matrix, values and gradients") {
  for_every_store([](const ParamStore& store, const Partition&) {
    for (ParamId id = 0; id < store.table().size(); ++id) {
      if (!store.holds(id) || store.table()[id].joined) continue;
      int n = 1;
      std::int64_t rows = store.at(id).value.rows();
      while (id + n < store.table().size() && store.table()[id + n].joined) rows += store.at(id + n++).value.rows();
      INFO(store.table()[id].name);
      REQUIRE(store.joined_value(id, n).rows() == rows);
      REQUIRE(store.joined_grad(id, n).rows() == rows);
      REQUIRE(store.joined_value(id, n).data == store.at(id).value.data);
    }
  });
}

TEST_CASE("the limit on buckets is kept between layers") {
  const Partition partition = make_partition(4, 1, 1, {});
  ModelDeck deck = gpt2_like();
  deck.layers = 4;
  const Held one(deck, {}, partition, small_buckets(std::int64_t{1} << 30));
  const Held many(deck, {}, partition, small_buckets(1));
  CHECK(one.store.buckets().size() < many.store.buckets().size());
  for (const Bucket& bucket : many.store.buckets()) {
    std::set<int> layers;
    for (const BucketPart& part : bucket.parts) layers.insert(many.model.table()[part.id].layer);
    if (!bucket.accumulates) CHECK(layers.size() == 1);
  }
}

TEST_CASE("without sequence parallelism only gains shared by heads are partial") {
  ParamStoreOptions options = small_buckets(1 << 20);
  options.sequence_parallel = false;
  const Held held(llama_like(), {{1, 1, 1, 2}, {}}, make_partition(2, 1, 1, {}), options);
  for (const Bucket& bucket : held.store.buckets()) {
    for (const BucketPart& part : bucket.parts) {
      CHECK(bucket.partial == (held.model.table()[part.id].partial == Partial::heads));
    }
  }
}

TEST_CASE("parameters of other stages are refused by name") {
  const Partition partition = make_partition(2, 2, 1, {});
  const Held held(gpt2_like(), {{2, 1, 1, 1}, {0, 0, 0, 0}}, partition, {});
  for (ParamId id = 0; id < held.model.table().size(); ++id) {
    if (!held.store.holds(id)) CHECK_THROWS_AS(held.store.at(id), std::logic_error);
  }
}

TEST_CASE("initial weights are the same numbers on every grid, and padding is zero") {
  const Partition whole = make_partition(2, 1, 1, {}), halves = make_partition(2, 2, 1, {});
  Held one(llama_like(), {}, whole, {});
  one.store.initialise(*one.backend, 99);
  for (int rank = 0; rank < 4; ++rank) {
    const GridPoint here = point_of({2, 1, 1, 2}, rank);
    Held part(llama_like(), here, halves, {});
    part.store.initialise(*part.backend, 99);
    for (ParamId id = 0; id < part.model.table().size(); ++id) {
      if (!part.store.holds(id)) continue;
      const ParamSpec& spec = part.model.table()[id];
      const Param& mine = part.store.at(id);
      const Tensor all = one.store.at(id).value;
      const std::int64_t columns = spec.shape.columns(), n_columns = mine.box.extent.columns();
      for (std::int64_t i = 0; i < mine.value.count(); ++i) {
        const std::int64_t row = mine.box.offset[0] + i / n_columns;
        const std::int64_t column = (spec.shape.rank == 2 ? mine.box.offset[1] : 0) + i % n_columns;
        INFO(spec.name << " element " << row << ", " << column);
        REQUIRE(mine.value.ptr<float>()[i] == all.ptr<float>()[row * columns + column]);
        if (spec.valid_rows > 0 && row >= spec.valid_rows) REQUIRE(mine.value.ptr<float>()[i] == 0);
      }
    }
  }
}
