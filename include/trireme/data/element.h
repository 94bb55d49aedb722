#pragma once
// How a token lies in a file. It reads and writes nothing itself.

#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

enum class Element : std::uint8_t { u8, i8, u16, i16, i32, i64 };
std::int64_t size_of(Element element);
const char* name_of(Element element);
std::optional<Element> element_of_name(const std::string& name);
std::int64_t largest_id(Element element);  // that it can hold, below 2^31

// The byte of an .idx file that names the element; 6 and 7 are floating-point numbers, which are no tokens.
std::uint8_t megatron_code(Element element);
std::optional<Element> element_of_code(int code);

// What Megatron takes for a vocabulary of that size.
Element usual_element(std::int64_t vocab);

}  // namespace trireme
