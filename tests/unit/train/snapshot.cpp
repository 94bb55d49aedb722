#include "trireme/train/snapshot.h"

#include <vector>

#include "catch.h"
#include "trireme/base/check.h"

using namespace trireme;

namespace {

StoredPiece piece(std::vector<float>& values, std::int64_t first, bool writes) {
  const auto n = static_cast<std::int64_t>(values.size());
  return {{{first}, {n}}, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, {n}), writes, {}};
}

}  // namespace

TEST_CASE("a snapshot keeps what is written while the originals change, and nothing else") {
  const auto backend = make_cpu_backend(1);
  std::vector<float> a{1, 2, 3}, b{4, 5}, other{9};
  Stored array{"/a", {6}, DType::f32, {piece(a, 0, true), piece(other, 5, false), piece(b, 3, true)}, "", {}, 0, ""};
  Snapshot snapshot(*backend, snapshot_bytes({array}));

  const std::vector<Stored> copies = snapshot.take({array});
  a = {0, 0, 0};
  b = {0, 0};

  REQUIRE(copies[0].pieces.size() == 2);
  CHECK(copies[0].pieces[0].data.ptr<float>()[2] == 3);
  CHECK(copies[0].pieces[1].data.ptr<float>()[0] == 4);
  CHECK(copies[0].pieces[1].box == array.pieces[2].box);
  CHECK(snapshot_bytes({array}) == 128);
  array.pieces.push_back(piece(a, 0, true));
  CHECK_THROWS_AS(snapshot.take({array}), std::logic_error);
}
