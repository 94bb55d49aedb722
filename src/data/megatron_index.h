#pragma once
// The .idx file that Megatron's preprocessing writes beside a .bin file: element type and sequence lengths. It is
// checked against the .bin; sequences and documents themselves are not used, a token file is one long array.

#include <cstdint>
#include <string>

namespace trireme {

// How a token lies in a file.
enum class Element : std::uint8_t { u8, i8, u16, i16, i32, i64 };
std::int64_t size_of(Element element);
const char* name_of(Element element);

// Reads and checks the index of a .bin of bin_bytes bytes; returns its element type. Throws Error(Exit::data) with what
// was expected and found. An index above 64 MiB is checked at its head, its end and in evenly spaced blocks between.
Element read_megatron_index(const std::string& idx_path, const std::string& bin_path, std::int64_t bin_bytes,
                            const std::string& key);

}  // namespace trireme
