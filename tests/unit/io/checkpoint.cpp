#include "trireme/io/checkpoint.h"

#include "alone.h"
#include "catch.h"

using namespace trireme;
using namespace trireme::test;
using Catch::Matchers::Contains;

TEST_CASE("a checkpoint gives back every bit, however the arrays are cut and staged") {
  for (const std::int64_t round_bytes : {8, 300, 1 << 20}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      Alone alone;
      const std::string path = alone.folder / "a.h5";
      HeldArrays saved = zoo(1, 0, 100 * seed), loaded = zoo(1, 0, 100 * seed + 50);
      saved.fill();

      save_checkpoint(path, saved.stored(), {}, *alone.ranks, *alone.backend, {.round_bytes = round_bytes});
      const int wrong_before = loaded.n_wrong();
      load_checkpoint(path, loaded.stored(), *alone.ranks, *alone.backend, round_bytes / 2);

      CHECK(wrong_before > 0);
      CHECK(loaded.n_wrong() == 0);
      CHECK_FALSE(std::filesystem::exists(path + ".part"));
    }
  }
}

TEST_CASE("attributes come back as they were") {
  Alone alone;
  const Attributes given{{"step", "100"},
                         {"scale", "0.10000000000000001"},
                         {"empty", ""},
                         {"name", "\xc3\xa9t\xc3\xa9\n\"x\""},
                         {"deck", std::string(200000, 'd')}};

  alone.save(alone.folder / "a.h5", {}, given);
  Attributes found = read_attributes(alone.folder / "a.h5");

  CHECK_THAT(found["program"], Contains("trireme "));
  found.erase("program");
  CHECK(found == given);
}

TEST_CASE("the list of arrays has shapes, dtypes, names and the documented checksum") {
  Alone alone;
  std::vector<float> values{1.5F, -2.25F, 3.0F, 0.0F, 5.0F, 6.0F};
  Stored array = whole("/param/a", DType::f32, {2, 3}, DType::f32, values.data());
  array.hf_names = "h.0.a\nh.1.a";

  alone.save(alone.folder / "a.h5", {array});
  const std::vector<ArrayInfo> infos = list_arrays(alone.folder / "a.h5");

  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < 6; ++i) {
    const std::uint64_t y =
        (i * 0x9e3779b97f4a7c15ULL ^ std::bit_cast<std::uint32_t>(values[i])) * 0xbf58476d1ce4e5b9ULL;
    sum += (y ^ y >> 32) * 0x94d049bb133111ebULL;
  }
  REQUIRE(infos.size() == 1);
  CHECK(infos[0].path == "/param/a");
  CHECK(infos[0].dtype == DType::f32);
  CHECK(infos[0].shape == std::vector<std::int64_t>{2, 3});
  CHECK(infos[0].hf_names == "h.0.a\nh.1.a");
  CHECK(std::stoull(infos[0].checksum, nullptr, 16) == sum);
}

TEST_CASE("floating-point arrays are converted between file and memory") {
  Alone alone;
  const std::string path = alone.folder / "a.h5";
  std::vector<double> f64{1.0, -0.333333333333333, 65504.0, 1e-3, 3.14159265358979, -2.0}, back64(6);
  std::vector<float> back32(6);
  std::vector<Bf16> back_bf16(6);

  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const double bound = dtype == DType::f64 ? 0 : dtype == DType::f32 ? 1e-7 : dtype == DType::bf16 ? 4e-3 : 5e-4;
    alone.save(path, {whole("/a", dtype, {2, 3}, DType::f64, f64.data())});
    alone.load(path, {whole("/a", dtype, {2, 3}, DType::f64, back64.data())});
    alone.load(path, {whole("/a", dtype, {2, 3}, DType::f32, back32.data())});
    alone.load(path, {whole("/a", dtype, {2, 3}, DType::bf16, back_bf16.data())});

    for (std::size_t i = 0; i < 6; ++i) {
      CHECK(std::abs(back64[i] - f64[i]) <= bound * std::abs(f64[i]));
      CHECK(back32[i] == static_cast<float>(back64[i]));
      CHECK(back_bf16[i].bits == Bf16(static_cast<float>(back64[i])).bits);
    }
  }
}

TEST_CASE("all arrays that do not fit are listed with both shapes") {
  Alone alone;
  std::vector<float> data(12);
  alone.save(alone.folder / "a.h5", {whole("/p/a", DType::f32, {3, 4}, DType::f32, data.data()),
                                     whole("/p/b", DType::f32, {12}, DType::f32, data.data()),
                                     whole("/p/c", DType::u16, {4}, DType::u16, data.data())});

  const std::string error = error_of([&] {
    alone.load(alone.folder / "a.h5", {whole("/p/a", DType::f32, {4, 3}, DType::f32, data.data()),
                                       whole("/p/b", DType::f32, {12}, DType::f32, data.data()),
                                       whole("/p/c", DType::f32, {4}, DType::f32, data.data()),
                                       whole("/q/d", DType::f32, {2}, DType::f32, data.data())});
  });

  CHECK_THAT(error, Contains("3: ") && Contains("/p/a has the shape [3, 4] in the file, [4, 3] here"));
  CHECK_THAT(error,
             Contains("/p/c is of dtype u16 in the file, which cannot become f32") && Contains("/q/d is missing"));
  CHECK_THAT(error, !Contains("/p/b"));
}

TEST_CASE("arrays that are not asked for are ignored and a part can be read") {
  Alone alone;
  std::vector<float> data{0, 1, 2, 3, 4, 5}, row(2);
  const std::string path = alone.folder / "a.h5";
  alone.save(path, {whole("/a", DType::f32, {3, 2}, DType::f32, data.data()),
                    whole("/b", DType::f32, {6}, DType::f32, data.data())});
  Stored part = whole("/a", DType::f32, {1, 2}, DType::f32, row.data());
  part.global = {3, 2};
  part.pieces[0].box.offset = {2, 0};

  alone.load(path, {part});

  CHECK(row == std::vector<float>{4, 5});
}

TEST_CASE("arrays that are not written whole, or twice, are our bug") {
  Alone alone;
  std::vector<float> data(12);
  Stored half = whole("/a", DType::f32, {2, 3}, DType::f32, data.data()),
         twice = whole("/a", DType::f32, {4, 3}, DType::f32, data.data());
  half.global = {4, 3};
  twice.pieces.push_back(twice.pieces[0]);

  CHECK_THROWS_AS(alone.save(alone.folder / "a.h5", {half}), std::logic_error);
  CHECK_THROWS_AS(alone.save(alone.folder / "a.h5", {twice}), std::logic_error);
}

TEST_CASE("the newest good checkpoint is found and what was passed over is told") {
  Alone alone;
  const std::string& folder = alone.folder.path();
  std::vector<std::string> complaints;
  CHECK(find_checkpoints(folder, &complaints).empty());
  CHECK(find_checkpoints(folder + "/none", &complaints).empty());
  for (const std::int64_t step : {5, 100, 20}) alone.save(folder + "/" + checkpoint_name(step), {});
  write_file(folder + "/step_00000900.h5.part", "half");
  write_file(folder + "/step_9.txt", "other");

  CHECK(find_checkpoints(folder, &complaints).at(0) == folder + "/step_00000100.h5");
  set_latest(folder, checkpoint_name(20));
  CHECK(find_checkpoints(folder, &complaints).at(0) == folder + "/step_00000020.h5");
  CHECK(complaints.empty());
  write_file(folder + "/step_00000020.h5", "damaged");
  write_file(folder + "/step_00000100.h5", "damaged");
  CHECK(find_checkpoints(folder, &complaints).at(0) == folder + "/step_00000005.h5");
  REQUIRE(complaints.size() == 2);
  CHECK_THAT(complaints[0], Contains("step_00000020.h5"));
  CHECK_THAT(complaints[1], Contains("step_00000100.h5"));
  CHECK(read_file(folder + "/latest") == "step_00000020.h5\n");
}

TEST_CASE("old checkpoints are retired, the newest and the latest stay") {
  const TemporaryFolder folder;
  for (const std::int64_t step : {1, 2, 3, 4, 100000000}) write_file(folder / checkpoint_name(step), "x");
  write_file(folder / "step_00000007.h5.part", "x");
  write_file(folder / "mine.h5", "x");
  set_latest(folder.path(), checkpoint_name(1));

  CHECK(retire_old(folder.path(), 0, 0).empty());
  CHECK(std::filesystem::exists(folder / checkpoint_name(2)));
  CHECK_FALSE(std::filesystem::exists(folder / "step_00000007.h5.part"));
  CHECK(retire_old(folder.path(), 2, 0).empty());

  for (const std::int64_t step : {1, 4, 100000000}) CHECK(std::filesystem::exists(folder / checkpoint_name(step)));
  for (const std::int64_t step : {2, 3}) CHECK_FALSE(std::filesystem::exists(folder / checkpoint_name(step)));
  CHECK(std::filesystem::exists(folder / "mine.h5"));
}
