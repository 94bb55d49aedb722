#include "trireme/train/batch_feed.h"

#include <algorithm>
#include <map>
#include <set>

#include "catch.h"
#include "trireme/base/check.h"

using namespace trireme;

namespace {

// Token i of the source is i: a sample says where it was read.
class Counting : public TokenSource {
 public:
  explicit Counting(std::int64_t n) : n_(n) {}
  std::int64_t n_tokens() const override { return n_; }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(first) + static_cast<std::int32_t>(i);
  }
  // Documents begin at every seventh token.
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const override {
    std::vector<std::int64_t> starts;
    for (std::int64_t i = first; i < first + count; ++i)
      if (i % 7 == 0) starts.push_back(i);
    return starts;
  }
  std::string describe() const override { return "numbers"; }
  std::string fingerprint() const override { return "numbers"; }

 private:
  std::int64_t n_;
};

Deck deck_of(std::int64_t sequence, std::int64_t micro, std::int64_t global) {
  Deck deck;
  deck.model.sequence = sequence;
  deck.batch.micro = micro;
  deck.batch.global = global;
  return deck;
}

HostBatch batch_at(const Deck& deck, const std::array<int, k_n_axes>& size, int rank, std::int64_t first) {
  const Counting source(10 * deck.model.sequence + 1);
  return BatchFeed(deck, point_of(size, rank), &source, nullptr).read(first, deck.batch.global);
}

int n_ranks(const std::array<int, k_n_axes>& size) {
  return size[0] * size[1] * size[2] * size[3];
}

}  // namespace

TEST_CASE("the positions of all context ranks are the sequence, each once, in equal shares") {
  for (int n = 1; n <= 5; ++n) {
    const std::int64_t sequence = 2 * n * 3;
    std::multiset<std::int32_t> seen;
    for (int rank = 0; rank < n; ++rank) {
      const std::vector<std::int32_t> mine = local_positions(sequence, n, rank);
      CHECK(static_cast<std::int64_t>(mine.size()) == sequence / n);
      CHECK(std::is_sorted(mine.begin(), mine.end()));
      seen.insert(mine.begin(), mine.end());
    }
    CHECK(static_cast<std::int64_t>(seen.size()) == sequence);
    for (std::int32_t i = 0; i < sequence; ++i) CHECK(seen.count(i) == 1);
  }
}

TEST_CASE("context rank r takes chunks r and 2n-1-r") {
  CHECK(local_positions(8, 1, 0) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(local_positions(8, 2, 0) == std::vector<std::int32_t>{0, 1, 6, 7});
  CHECK(local_positions(8, 2, 1) == std::vector<std::int32_t>{2, 3, 4, 5});
  CHECK_THROWS_AS(local_positions(9, 2, 0), std::logic_error);
}

TEST_CASE("every grid reads each token of the global batch once, with the same number in the batch") {
  const Deck deck = deck_of(12, 2, 12);
  const HostBatch whole = batch_at(deck, {1, 1, 1, 1}, 0, 24);
  std::map<std::int64_t, std::pair<std::int32_t, std::int32_t>> expected;
  for (std::size_t i = 0; i < whole.rows.size(); ++i) expected[whole.rows[i]] = {whole.ids[i], whole.targets[i]};
  REQUIRE(expected.size() == 12 * 12);
  for (const std::array<int, k_n_axes>& size :
       {std::array{1, 2, 1, 1}, std::array{1, 3, 2, 1}, std::array{1, 1, 3, 2}, std::array{1, 6, 1, 1}}) {
    std::map<std::int64_t, std::pair<std::int32_t, std::int32_t>> found;
    for (int rank = 0; rank < n_ranks(size); ++rank) {
      if (point_of(size, rank).at(Axis::tp) != 0) continue;
      const HostBatch mine = batch_at(deck, size, rank, 24);
      CHECK(mine.n_targets == whole.n_targets);
      CHECK(mine.n_micro == 12 / (2 * size[1]));
      for (std::size_t i = 0; i < mine.rows.size(); ++i) {
        CHECK(found.emplace(mine.rows[i], std::pair{mine.ids[i], mine.targets[i]}).second);
      }
    }
    CHECK(found == expected);
  }
}

TEST_CASE("micro-batch m of replica d holds the samples from (m dp + d) micro on") {
  const Deck deck = deck_of(4, 2, 12);
  for (int replica = 0; replica < 3; ++replica) {
    const HostBatch mine = batch_at(deck, {1, 3, 1, 1}, replica, 0);
    std::vector<std::int64_t> samples;
    for (std::size_t i = 0; i < mine.rows.size(); i += 4) samples.push_back(mine.rows[i] / 4);
    const std::int64_t first = 2 * replica;
    CHECK(samples == std::vector<std::int64_t>{first, first + 1, first + 6, first + 7});
  }
}

TEST_CASE("ranks that share a replica and a chunk of the sequence read the same tokens") {
  const Deck deck = deck_of(12, 1, 4);
  const HostBatch tp0 = batch_at(deck, {1, 2, 1, 2}, 0, 0), tp1 = batch_at(deck, {1, 2, 1, 2}, 1, 0);
  CHECK(tp0.ids == tp1.ids);
  CHECK(tp0.targets == tp1.targets);
}

TEST_CASE("only the first stage holds ids and only the last holds targets") {
  const Deck deck = deck_of(12, 1, 4);
  const HostBatch first = batch_at(deck, {3, 1, 1, 1}, 0, 0), middle = batch_at(deck, {3, 1, 1, 1}, 1, 0),
                  last = batch_at(deck, {3, 1, 1, 1}, 2, 0);
  CHECK((first.ids.size() == 48 && first.targets.empty()));
  CHECK((middle.ids.empty() && middle.targets.empty()));
  CHECK((last.ids.empty() && last.targets.size() == 48));
  CHECK(first.rows == last.rows);
  CHECK(middle.positions == first.positions);
}

TEST_CASE("a target is the token after its input; after the end-of-document token it is masked when asked") {
  Deck deck = deck_of(12, 1, 4);
  const HostBatch plain = batch_at(deck, {1, 1, 1, 1}, 0, 0);
  for (std::size_t i = 0; i < plain.ids.size(); ++i) CHECK(plain.targets[i] == plain.ids[i] + 1);
  CHECK(plain.n_targets == 48);
  deck.data.eod = plain.ids[5];
  deck.data.mask_eod = true;

  const HostBatch masked = batch_at(deck, {1, 1, 1, 1}, 0, 0);

  for (std::size_t i = 0; i < masked.ids.size(); ++i) {
    CHECK(masked.targets[i] == (masked.ids[i] == deck.data.eod ? -1 : masked.ids[i] + 1));
  }
}

TEST_CASE("every stage and every context rank knows where the document of each token begins") {
  Deck deck = deck_of(24, 2, 4);
  const HostBatch plain = batch_at(deck, {1, 1, 1, 1}, 0, 0);
  CHECK(plain.doc_starts.empty());
  deck.data.mask_documents = deck.data.reset_positions = true;
  for (int rank = 0; rank < 6; ++rank) {
    const std::array<int, k_n_axes> size{3, 1, 2, 1};
    const HostBatch batch = batch_at(deck, size, rank, 0);
    const std::vector<std::int32_t> places = local_positions(24, 2, point_of(size, rank).at(Axis::cp));
    REQUIRE(batch.doc_starts.size() == 4 * 12);
    REQUIRE(batch.positions.size() == 4 * 12);
    for (std::size_t i = 0; i < batch.doc_starts.size(); ++i) {
      const std::int32_t place = places[i % 12], sample = static_cast<std::int32_t>(i / 12) * 24;
      const std::int32_t first_token = plain.ids[static_cast<std::size_t>(sample)];
      const std::int32_t start = std::max(0, (first_token + place) / 7 * 7 - first_token);
      CHECK(batch.doc_starts[i] == start);
      CHECK(batch.positions[i] == place - start);
    }
  }
}

TEST_CASE("without a source a feed gives sizes only") {
  const Deck deck = deck_of(12, 2, 12);

  const HostBatch batch = BatchFeed(deck, point_of({1, 2, 2, 1}, 3), nullptr, nullptr).read(0, 12);

  CHECK(batch.n_micro == 3);
  CHECK((batch.ids.empty() && batch.targets.empty()));
  CHECK(batch.rows.size() == 3 * 2 * 6);
  CHECK(batch.n_targets == 12 * 12);
}
