#include "trireme/train/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/train/deadline.h"

namespace trireme {

namespace {

// --- protobuf: a field is a key (number * 8 + wire type) and a value

std::string varint(std::uint64_t x) {
  std::string bytes;
  for (; x >= 0x80; x >>= 7) bytes += static_cast<char>(0x80 | (x & 0x7F));
  return bytes + static_cast<char>(x);
}

template <class T>
std::string raw(const T& value) {  // little-endian, as the machines we know
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string integer_field(int number, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(number) << 3) + varint(static_cast<std::uint64_t>(value));
}

std::string double_field(int number, double value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 1) + raw(value);
}

std::string float_field(int number, double value) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 5) + raw(static_cast<float>(value));
}

std::string bytes_field(int number, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
std::string event_head(std::int64_t step) {
  return double_field(1, unix_seconds()) + integer_field(2, step);
}

std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t x = i;
    for (int bit = 0; bit < 8; ++bit) x = (x >> 1) ^ ((x & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = x;
  }
  return table;
}

// TFRecord stores checksums rotated and shifted, so that a checksum of checksums is no trap.
std::string masked(const std::string& bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return raw(std::rotr(crc, 15) + 0xA282EAD8U);
}

}  // namespace

std::uint32_t crc32c(const std::string& bytes) {
  static const std::array<std::uint32_t, 256> table = crc_table();
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xFFU] ^ (crc >> 8);
  return ~crc;
}

EventFile::EventFile(const std::string& folder, std::int64_t first_step) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string name = folder + format("/events.out.tfevents.%010lld.%s.%d", static_cast<long long>(unix_seconds()),
                                           host.data(), static_cast<int>(getpid()));
  path_ = name;
  for (int i = 1; std::filesystem::exists(path_); ++i) path_ = name + "." + std::to_string(i);
  out_.open(path_, std::ios::binary);
  record(double_field(1, unix_seconds()) + bytes_field(3, "brain.Event:2"));
  if (first_step > 1) record(event_head(first_step) + bytes_field(7, integer_field(1, 1)));  // session_log: START
}

void EventFile::record(const std::string& event) {
  const std::string length = raw(static_cast<std::uint64_t>(event.size()));
  out_ << length << masked(length) << event << masked(event);
  out_.flush();
  if (!out_)
    throw Error(Exit::data, "cannot write " + path_ + ": check the free space and permissions of the run folder");
}

void EventFile::write(std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) summary += bytes_field(1, bytes_field(1, tag) + float_field(2, value));
  record(event_head(step) + bytes_field(5, summary));
}

}  // namespace trireme
