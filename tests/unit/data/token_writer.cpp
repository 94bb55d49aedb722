#include "trireme/data/token_writer.h"

#include <fstream>
#include <sstream>

#include "catch.h"
#include "help.h"

namespace trireme {

using Catch::Matchers::Contains;

namespace {

std::string bytes_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_documents(const std::string& prefix, Element element, const std::vector<Ids>& documents) {
  TokenWriter writer(prefix, element);
  for (const Ids& document : documents) writer.add_document(document);
  writer.finish();
}

}  // namespace

TEST_CASE("token files are byte for byte what Megatron's preprocessing lays out") {
  const TemporaryFolder folder;
  const Ids all{7, 8, 9, 100, 11};
  for (const auto& [element, code, size] :
       {std::tuple(Element::u8, 1, 1), std::tuple(Element::i8, 2, 1), std::tuple(Element::i16, 3, 2),
        std::tuple(Element::i32, 4, 4), std::tuple(Element::i64, 5, 8), std::tuple(Element::u16, 8, 2)}) {
    write_documents(folder / "a", element, {{7, 8}, {9, 100, 11}});

    CHECK(bytes_in(folder / "a.idx") == index_of(static_cast<std::uint8_t>(code), size, {2, 3}).bytes());
    CHECK(bytes_in(folder / "a.bin").size() == static_cast<std::size_t>(5 * size));
    CHECK(all_ids(*open_all(deck_of("tokens", {folder / "a"})).training) == all);
    CHECK_FALSE(std::filesystem::exists(folder / "a.bin.part"));
  }
  CHECK(bytes_in(folder / "a.bin") == bytes_of(std::vector<std::uint16_t>{7, 8, 9, 100, 11}));
}

TEST_CASE("ids that do not fit the element are refused and leave nothing behind") {
  const TemporaryFolder folder;

  CHECK_THAT(error_of([&] {
               write_documents(folder / "a", Element::u16, {{65535}, {65536}});
             }),
             Contains("3: token 65536 does not fit") && Contains("u16"));
  CHECK_THAT(error_of([&] { write_documents(folder / "a", Element::i8, {{128}}); }), Contains("token 128"));
  CHECK_THAT(error_of([&] { write_documents(folder / "a", Element::i32, {{-1}}); }), Contains("token -1"));
  CHECK_THAT(error_of([&] { write_documents(folder / "a", Element::i32, {}); }), Contains("no document"));
  CHECK_THAT(error_of([&] { write_documents(folder / "no/a", Element::i32, {{1}}); }), Contains("cannot be written"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("merged files hold all documents in order, those of several sequences too") {
  const TemporaryFolder folder;
  write_documents(folder / "a", Element::u16, {{1, 2}, {3}});
  IndexBytes index = index_of(8, 2, {1, 2, 1});
  index.documents = {0, 2, 3};
  folder.write("b.bin", bytes_of(std::vector<std::uint16_t>{4, 5, 6, 7}));
  folder.write("b.idx", index.bytes());

  TokenWriter writer(folder / "c", Element::u16);
  writer.add_files(folder / "a");
  writer.add_files(folder / "b");
  writer.finish();

  IndexBytes expected = index_of(8, 2, {2, 1, 1, 2, 1});
  expected.documents = {0, 1, 2, 4, 5};
  CHECK(bytes_in(folder / "c.idx") == expected.bytes());
  CHECK(all_ids(*open_all(deck_of("tokens", {folder / "c"})).training) == Ids{1, 2, 3, 4, 5, 6, 7});
  TokenWriter other(folder / "d", Element::i32);
  CHECK_THAT(error_of([&] { other.add_files(folder / "a"); }), Contains("u16") && Contains("i32"));
}

}  // namespace trireme
