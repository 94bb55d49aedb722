#include "trireme/data/element.h"

#include <array>
#include <limits>

#include "trireme/base/check.h"

namespace trireme {

namespace {

struct Row {
  Element element;
  const char* name;
  std::uint8_t code;
  std::int64_t size, largest;
};

constexpr std::int64_t k_most = std::numeric_limits<std::int32_t>::max();
constexpr std::array<Row, 6> k_rows{{{Element::u8, "u8", 1, 1, 255},
                                     {Element::i8, "i8", 2, 1, 127},
                                     {Element::u16, "u16", 8, 2, 65535},
                                     {Element::i16, "i16", 3, 2, 32767},
                                     {Element::i32, "i32", 4, 4, k_most},
                                     {Element::i64, "i64", 5, 8, k_most}}};

const Row& row_of(Element element) {
  for (const Row& row : k_rows) {
    if (row.element == element) return row;
  }
  require(false, "an element without a row");
  return k_rows[0];
}

}  // namespace

std::int64_t size_of(Element element) {
  return row_of(element).size;
}

const char* name_of(Element element) {
  return row_of(element).name;
}

std::optional<Element> element_of_name(const std::string& name) {
  for (const Row& row : k_rows) {
    if (name == row.name) return row.element;
  }
  return {};
}

std::int64_t largest_id(Element element) {
  return row_of(element).largest;
}

std::uint8_t megatron_code(Element element) {
  return row_of(element).code;
}

std::optional<Element> element_of_code(int code) {
  for (const Row& row : k_rows) {
    if (code == row.code) return row.element;
  }
  return {};
}

Element usual_element(std::int64_t vocab) {
  return vocab < 65500 ? Element::u16 : Element::i32;
}

}  // namespace trireme
