#pragma once
// The deck as a list: one entry per key, with the address of its value. Parser, checker and printer loop over it; it
// owns nothing.

#include <string>
#include <variant>
#include <vector>

#include "trireme/deck/deck.h"

namespace trireme {

template <class T>
struct Slot {
  T* value;
  Limit<T> limit;
};
using AnySlot =
    std::variant<Slot<bool>, Slot<std::int64_t>, Slot<double>, Slot<std::string>, Slot<std::vector<std::int64_t>>,
                 Slot<std::vector<double>>, Slot<std::vector<std::string>>>;

struct Field {
  std::string section, name, doc;
  AnySlot slot;
  std::string key() const { return section + "." + name; }
};

struct Section {
  std::string name, doc;
};

struct FieldList {
  std::vector<Section> sections;
  std::vector<Field> fields;

  template <class S>
  void section(const char* name, S& values, const char* doc) {
    sections.push_back({name, doc});
    values.describe(*this);
  }
  template <class T>
  void field(const char* name, T& value, const char* doc, Limit<T> limit) {
    fields.push_back({sections.back().name, name, doc, Slot<T>{&value, std::move(limit)}});
  }
};

inline FieldList list_fields(Deck& deck) {
  FieldList list;
  deck.describe(list);
  return list;
}

}  // namespace trireme
