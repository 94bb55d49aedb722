#include "data/tokenizer/bpe.h"

#include <optional>
#include <random>

#include "../help.h"
#include "catch.h"

namespace trireme {

namespace {

// The definition, without any art: the lowest rank, of equal ones the leftmost.
Ids merged_slowly(const MergeTable& table, Ids ids) {
  while (true) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merge here = table.find(ids[i], ids[i + 1]);
      if (here.rank >= 0 && (!best || here.rank < table.find(ids[*best], ids[*best + 1]).rank)) best = i;
    }
    if (!best) return ids;
    ids[*best] = table.find(ids[*best], ids[*best + 1]).result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
  }
}

}  // namespace

TEST_CASE("scanning and heap merge as the definition says, for words of every length") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    MergeTable table(4);  // made to grow
    const std::uint32_t letters = 2 + random() % 3;
    for (std::int32_t token = 0; token < 30; ++token)
      table.insert(static_cast<std::int32_t>(random() % (letters + static_cast<std::uint32_t>(token))),
                   static_cast<std::int32_t>(random() % (letters + static_cast<std::uint32_t>(token))),
                   {static_cast<std::int32_t>(random() % 20), static_cast<std::int32_t>(letters) + token});
    Ids word(random() % 130);
    for (std::int32_t& id : word) id = static_cast<std::int32_t>(random() % letters);

    MergeSpace space;
    Ids ids{7};
    ids.insert(ids.end(), word.begin(), word.end());
    merge(table, ids, 1, space);

    Ids expected = merged_slowly(table, word);
    expected.insert(expected.begin(), 7);
    CHECK(ids == expected);
  }
}

TEST_CASE("a later merge of the same pair replaces the earlier one") {
  MergeTable table(2);
  table.insert(1, 2, {0, 3});
  table.insert(1, 2, {1, 4});

  CHECK(table.size() == 1);
  CHECK(table.find(1, 2).result == 4);
  CHECK(table.find(2, 1).rank == -1);
}

}  // namespace trireme
