// Checkpoints of several ranks: any cut to any other, and one failure for all.

#include "trireme/io/checkpoint.h"

#include <sys/resource.h>

#include <csignal>

#include "../../unit/io/files.h"
#include "../../unit/io/held_array.h"
#include "../comm/job.h"
#include "catch.h"

using namespace trireme;
using namespace trireme::test;
using Catch::Matchers::Contains;

namespace {

// One folder that all ranks use; rank 0 makes and removes it.
class SharedFolder {
 public:
  SharedFolder() {
    if (job().session.rank() == 0) mine_ = std::make_unique<TemporaryFolder>();
    path_ = job().session.broadcast(mine_ ? mine_->path() : "");
  }
  ~SharedFolder() { job().world().barrier(); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::unique_ptr<TemporaryFolder> mine_;
  std::string path_;
};

int n_ranks() {
  return job().session.size();
}
int rank() {
  return job().session.rank();
}

HeldArrays my_zoo(std::uint64_t seed) {
  return zoo(n_ranks(), rank(), seed);
}

void save(const std::string& path, const std::vector<Stored>& arrays, std::int64_t round_bytes) {
  save_checkpoint(path, arrays, {{"step", "5"}}, job().world(), *job().backend, {.round_bytes = round_bytes});
}

void load(const std::string& path, const std::vector<Stored>& arrays, std::int64_t round_bytes) {
  load_checkpoint(path, arrays, job().world(), *job().backend, round_bytes);
}

constexpr std::int64_t k_whole = 1 << 28;

// The error of this rank, after checking that it is that of every rank.
template <class Act>
std::string common_error(Act act) {
  const std::string mine = error_of(act), first = job().session.broadcast(mine);
  CHECK(mine == first);
  return first;
}

}  // namespace

TEST_CASE("what one cut saves, any other cut loads bit for bit") {
  for (const std::int64_t round_bytes : {std::int64_t{64}, std::int64_t{1000}, k_whole}) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      const SharedFolder folder;
      HeldArrays saved = my_zoo(1000 * seed), loaded = my_zoo(1000 * seed + 500);
      saved.fill();

      save(folder / "a.h5", saved.stored(), round_bytes);
      load(folder / "a.h5", loaded.stored(), 2 * round_bytes);

      CHECK(loaded.n_wrong() == 0);
    }
  }
}

TEST_CASE("every way of writing gives the same arrays and checksums") {
  const SharedFolder folder;
  std::vector<std::string> checksums;
  for (const int way : {0, 1, 2, 3}) {
    HeldArrays saved = my_zoo(40), loaded = my_zoo(80);
    saved.fill();
    std::vector<Stored> stored = saved.stored();
    SaveOptions options;
    options.round_bytes = 500;
    if (way == 1) options.transfer = Transfer::collective;
    if (way == 1) options.hints = {{"cb_nodes", "1"}, {"striping_factor", "1"}};
    if (way == 2) options.files = 3;
    if (way == 3) {
      for (Stored& array : stored) {
        array.chunk = array.global;
        for (int d = 0; d < array.global.rank; ++d) array.chunk[d] = (array.global[d] + 2) / 3;
      }
    }

    save_checkpoint(folder / "a.h5", stored, {}, job().world(), *job().backend, options);
    load(folder / "a.h5", loaded.stored(), 700);

    CHECK(loaded.n_wrong() == 0);
    std::string all;
    for (const ArrayInfo& info : list_arrays(folder / "a.h5")) all += info.path + " " + info.checksum + "\n";
    checksums.push_back(all);
    job().world().barrier();
  }
  for (const std::string& all : checksums) CHECK(all == checksums[0]);
}

TEST_CASE("the checksums do not depend on the cut") {
  const SharedFolder folder;
  std::vector<std::vector<ArrayInfo>> infos;
  for (const std::uint64_t seed : {7, 8}) {
    HeldArrays arrays = my_zoo(seed);
    arrays.fill();
    save(folder / "a.h5", arrays.stored(), k_whole);
    infos.push_back(list_arrays(folder / "a.h5"));
    job().world().barrier();
  }

  REQUIRE(infos[0].size() == 9);
  for (std::size_t i = 0; i < infos[0].size(); ++i) CHECK(infos[0][i].checksum == infos[1][i].checksum);
}

TEST_CASE("copies are read by all who ask and written by one") {
  const SharedFolder folder;
  std::vector<Owned> everyone;
  for (int r = 0; r < n_ranks(); ++r) everyone.push_back({{{0, 0}, {33, 21}}, r});
  const auto held = [&](const std::string& path, int writer) {
    HeldArray array(path, DType::f32, {33, 21}, everyone, rank());
    for (StoredPiece& piece : array.stored().pieces) piece.writes = rank() == writer;
    return array;
  };
  HeldArrays saved, loaded;
  saved.add(held("/first", 0));
  saved.add(held("/last", n_ranks() - 1));
  loaded.add(held("/first", n_ranks() - 1));
  loaded.add(held("/last", 0));
  saved.fill();

  save(folder / "a.h5", saved.stored(), k_whole);
  load(folder / "a.h5", loaded.stored(), k_whole);

  CHECK(loaded.n_wrong() == 0);
}

TEST_CASE("ranks without a single piece take part") {
  const SharedFolder folder;
  const auto one_rank = [&](int owner) {
    HeldArrays arrays;
    arrays.add({"/a", DType::bf16, {100, 30}, {{{{0, 0}, {100, 30}}, owner}}, rank()});
    return arrays;
  };
  HeldArrays saved = one_rank(n_ranks() - 1), loaded = one_rank(0);
  saved.fill();

  save(folder / "a.h5", saved.stored(), 500);
  load(folder / "a.h5", loaded.stored(), 700);

  CHECK(loaded.n_wrong() == 0);
}

TEST_CASE("hundreds of irregular pieces of a stacked array") {
  const SharedFolder folder;
  const Shape shape{24, 300, 200};
  HeldArrays saved, loaded;
  saved.add({"/a", DType::bf16, shape, random_partition(shape, 700, n_ranks(), 1), rank()});
  loaded.add({"/a", DType::bf16, shape, random_partition(shape, 900, n_ranks(), 2), rank()});
  saved.fill();

  save(folder / "a.h5", saved.stored(), k_whole);
  load(folder / "a.h5", loaded.stored(), k_whole);

  CHECK(loaded.n_wrong() == 0);
}

TEST_CASE("damage is told to every rank alike") {
  const SharedFolder folder;
  HeldArrays arrays = my_zoo(3);
  arrays.fill();
  save(folder / "a.h5", arrays.stored(), k_whole);
  const std::string bytes = read_file(folder / "a.h5");
  job().world().barrier();
  const auto replace = [&](const std::string& contents) {
    if (rank() == 0) write_file(folder / "a.h5", contents);
    job().world().barrier();
  };

  std::string element(8, '\0');
  const std::uint64_t bits = bits_of("/zoo/f64.2", 100);
  std::memcpy(element.data(), &bits, 8);
  const std::size_t place = bytes.find(element);
  REQUIRE(place != std::string::npos);
  std::string damaged = bytes;
  damaged[place] ^= 4;
  replace(damaged);
  CHECK_THAT(common_error([&] { load(folder / "a.h5", arrays.stored(), k_whole); }),
             Contains("3: ") && Contains("/zoo/f64.2 has the checksum") && !Contains("bf16"));

  replace(bytes.substr(0, bytes.size() / 2));
  CHECK_THAT(common_error([&] { load(folder / "a.h5", arrays.stored(), k_whole); }),
             Contains("3: ") && Contains("cut short"));
  replace("nothing");
  CHECK_THAT(common_error([&] { load(folder / "a.h5", arrays.stored(), k_whole); }), Contains("is not an HDF5 file"));
  replace(bytes);
  CHECK(common_error([&] { load(folder / "a.h5", arrays.stored(), k_whole); }) == "no error");
}

TEST_CASE("arrays that do not fit are told to every rank, also when only one asks for them") {
  const SharedFolder folder;
  HeldArrays arrays = my_zoo(3);
  arrays.fill();
  save(folder / "a.h5", arrays.stored(), k_whole);
  HeldArrays wrong;
  wrong.add({"/zoo/f64.2",
             rank() + 1 == n_ranks() ? DType::i64 : DType::f64,
             {31, 17},
             {{{{0, 0}, {31, 17}}, n_ranks() - 1}},
             rank()});

  CHECK_THAT(common_error([&] { load(folder / "a.h5", wrong.stored(), k_whole); }),
             Contains("3: ") && Contains("cannot become i64"));
  CHECK_THAT(common_error([&] { load(folder / "none.h5", wrong.stored(), k_whole); }), Contains("does not exist"));
  CHECK_THAT(common_error([&] { save(folder / "no/a.h5", arrays.stored(), k_whole); }),
             Contains("3: ") && Contains("no/a.h5.part"));
}

TEST_CASE("one rank that cannot write fails the save for all and the earlier file stays") {
  const SharedFolder folder;
  HeldArrays arrays = my_zoo(3), large;
  arrays.fill();
  const Shape shape{300, 4000};
  large.add({"/a", DType::f32, shape, random_partition(shape, 20, n_ranks(), 1), rank()});
  save(folder / "a.h5", arrays.stored(), k_whole);
  const std::string bytes = read_file(folder / "a.h5");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1 << 16, before.rlim_max};

  if (rank() + 1 == n_ranks()) setrlimit(RLIMIT_FSIZE, &small);
  const std::string error = common_error([&] { save(folder / "a.h5", large.stored(), k_whole); });
  setrlimit(RLIMIT_FSIZE, &before);

  CHECK_THAT(error, Contains("3: ") && Contains("a.h5.part"));
  if (n_ranks() > 1) CHECK_THAT(error, Contains("rank " + std::to_string(n_ranks() - 1) + ": "));
  CHECK(read_file(folder / "a.h5") == bytes);
  job().world().barrier();
  CHECK_FALSE(std::filesystem::exists(folder / "a.h5.part"));
  job().world().barrier();
  CHECK(common_error([&] { save(folder / "a.h5", large.stored(), k_whole); }) == "no error");
}
