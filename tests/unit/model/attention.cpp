#include "trireme/model/attention.h"

#include <vector>

#include "catch.h"
#include "trireme/base/check.h"

using namespace trireme;

namespace {

// Position in the sequence of local row `row` of context rank `rank`: chunks rank and 2n-1-rank of 2n.
std::int64_t position_of(int n, int rank, std::int64_t local, std::int64_t row) {
  if (n == 1) return row;
  const std::int64_t chunk = local / 2;
  return row < chunk ? rank * chunk + row : (2 * n - 1 - rank) * chunk + row - chunk;
}

bool inside(std::int64_t first_q, std::int64_t first_k, std::int64_t window) {
  return first_k <= first_q && (window == 0 || first_k > first_q - window);
}

// [query][key] of the whole sequence: how often a ring of n ranks computes the pair.
std::vector<std::vector<int>> pairs_computed(int n, std::int64_t sequence, std::int64_t window, Visibility visibility) {
  const std::int64_t local = sequence / n;
  std::vector<std::vector<int>> times(static_cast<std::size_t>(sequence),
                                      std::vector<int>(static_cast<std::size_t>(sequence), 0));
  for (int rank = 0; rank < n; ++rank) {
    for (int source = 0; source < n; ++source) {
      for (const RingCall& call : ring_calls(n, rank, source, local, window, visibility)) {
        for (std::int64_t i = 0; i < call.q_rows; ++i) {
          for (std::int64_t j = 0; j < call.k_rows; ++j) {
            if (!inside(call.first_q + i, call.first_k + j, window)) continue;
            const std::int64_t q = position_of(n, rank, local, call.q_row + i);
            const std::int64_t k = position_of(n, source, local, call.k_row + j);
            ++times[static_cast<std::size_t>(q)][static_cast<std::size_t>(k)];
          }
        }
      }
    }
  }
  return times;
}

// A window is a matter of positions; without one documents may make it so.
std::vector<Visibility> visibilities(std::int64_t window) {
  if (window > 0) return {Visibility::by_position};
  return {Visibility::by_order, Visibility::by_position};
}

// For calls by position: they say where rows really stand.
std::int64_t n_wrong_positions(int n, std::int64_t local, std::int64_t window) {
  std::int64_t wrong = 0;
  for (int rank = 0; rank < n; ++rank) {
    for (int source = 0; source < n; ++source) {
      for (const RingCall& call : ring_calls(n, rank, source, local, window, Visibility::by_position)) {
        for (std::int64_t i = 0; i < call.q_rows; ++i)
          wrong += call.first_q + i == position_of(n, rank, local, call.q_row + i) ? 0 : 1;
        for (std::int64_t j = 0; j < call.k_rows; ++j)
          wrong += call.first_k + j == position_of(n, source, local, call.k_row + j) ? 0 : 1;
      }
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("calls by position say where every row stands in the sequence") {
  for (int n = 1; n <= 5; ++n) {
    for (const std::int64_t window : {0, 1, 5, 9}) CHECK(n_wrong_positions(n, 8, window) == 0);
  }
}

TEST_CASE("a ring computes every visible pair of query and key once and no other") {
  for (int n = 1; n <= 5; ++n) {
    const std::int64_t sequence = 2 * n * 4;
    for (const std::int64_t window : {0, 1, 2, 3, 4, 5, 7, 8, 9, 13, 40, 1000}) {
      for (const Visibility visibility : visibilities(window)) {
        INFO(n << " ranks, window " << window);
        const std::vector<std::vector<int>> times = pairs_computed(n, sequence, window, visibility);
        std::int64_t wrong = 0;
        for (std::int64_t q = 0; q < sequence; ++q) {
          for (std::int64_t k = 0; k < sequence; ++k) {
            const int expected = inside(q, k, window) ? 1 : 0;
            wrong += times[static_cast<std::size_t>(q)][static_cast<std::size_t>(k)] == expected ? 0 : 1;
          }
        }
        REQUIRE(wrong == 0);
      }
    }
  }
}

TEST_CASE("without a window every rank makes one call per step, and all do the same work") {
  for (int n = 2; n <= 5; ++n) {
    for (int rank = 0; rank < n; ++rank) {
      std::int64_t pairs = 0;
      for (int source = 0; source < n; ++source) {
        const std::vector<RingCall> calls = ring_calls(n, rank, source, 8, 0, Visibility::by_order);
        REQUIRE(calls.size() == 1);
        pairs += source == rank ? 8 * 9 / 2 : calls[0].q_rows * calls[0].k_rows;
      }
      CHECK(pairs == 36 + (n - 1) * 32);
    }
  }
}

TEST_CASE("every call that is made has something to compute") {
  const auto has_work = [](const RingCall& call, std::int64_t window) {
    for (std::int64_t i = 0; i < call.q_rows; ++i) {
      for (std::int64_t j = 0; j < call.k_rows; ++j) {
        if (inside(call.first_q + i, call.first_k + j, window)) return true;
      }
    }
    return false;
  };
  for (int n = 1; n <= 5; ++n) {
    for (const std::int64_t window : {0, 1, 2, 3, 4, 5, 8, 9, 13, 1000}) {
      for (int rank = 0; rank < n; ++rank) {
        for (int source = 0; source < n; ++source) {
          INFO(n << " ranks, window " << window << ", rank " << rank << " with the keys of " << source);
          for (const Visibility visibility : visibilities(window)) {
            for (const RingCall& call : ring_calls(n, rank, source, 8, window, visibility))
              CHECK(has_work(call, window));
          }
        }
      }
    }
  }
}

TEST_CASE("a rank with an odd number of tokens cannot hold two chunks") {
  CHECK_THROWS_AS(ring_calls(2, 0, 0, 7, 0, Visibility::by_order), std::logic_error);
}

TEST_CASE("columns of the fused projection add up") {
  const HeadCounts heads{6, 2, 4};
  CHECK(heads.query_columns() == 24);
  CHECK(heads.kv_columns() == 8);
  CHECK(heads.all_columns() == 40);
}
