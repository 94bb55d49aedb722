#include "trireme/io/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>

#include "safetensors_header.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr std::uint64_t k_largest_header = 100'000'000;  // the limit of the format's own reader

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Exit::data, path + ": " + why);
}

std::optional<DType> dtype_of(const std::string& type) {
  static const std::map<std::string, DType> known{
      {"F64", DType::f64},      {"F32", DType::f32},      {"BF16", DType::bf16}, {"F16", DType::f16},
      {"F8_E4M3", DType::e4m3}, {"F8_E5M2", DType::e5m2}, {"I64", DType::i64},   {"I32", DType::i32},
      {"U16", DType::u16},      {"U8", DType::u8}};
  const auto found = known.find(type);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

// The whole file in memory, read-only.
std::pair<const std::byte*, std::size_t> map_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) refuse(path, "cannot be opened: " + std::string(std::strerror(errno)));
  struct stat status {};
  const bool known = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const auto size = static_cast<std::size_t>(known ? status.st_size : 0);
  void* map = size >= 8 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
  const int error = errno;
  ::close(file);
  if (!known) refuse(path, "is not a regular file");
  if (size < 8) refuse(path, "has " + std::to_string(size) + " bytes, a safetensors file has at least 8");
  if (map == MAP_FAILED) refuse(path, "cannot be mapped: " + std::string(std::strerror(error)));
  return {static_cast<const std::byte*>(map), size};
}

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

template <class T>
std::vector<double> as_doubles(const SafeTensor& tensor, Range part) {
  std::vector<double> values(static_cast<std::size_t>(part.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T x;  // the data need not be aligned
    std::memcpy(&x, tensor.data + (static_cast<std::size_t>(part.first) + i) * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, Bf16> || std::is_same_v<T, F16>)
      values[i] = static_cast<double>(static_cast<float>(x));
    if constexpr (std::is_arithmetic_v<T>) values[i] = static_cast<double>(x);
  }
  return values;
}

}  // namespace

std::int64_t SafeTensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path) {
  std::tie(map_, size_) = map_file(path);
  try {
    std::uint64_t length = 0;
    std::memcpy(&length, map_, 8);
    if (length > size_ - 8 || length > k_largest_header) {
      refuse(path, "announces a header of " + std::to_string(length) + " bytes, but the file has " +
                       std::to_string(size_) + "; it is cut short or no safetensors file");
    }
    const std::byte* data = map_ + 8 + length;
    const std::string_view json(reinterpret_cast<const char*>(map_) + 8, static_cast<std::size_t>(length));
    SafetensorsHeader header = parse_safetensors_header(path, json, static_cast<std::int64_t>(size_ - 8 - length));
    metadata_ = std::move(header.metadata);
    for (const auto& [name, entry] : header.entries) {
      const auto dtype = dtype_of(entry.type);
      if (!dtype) unread_[name] = entry.type;
      if (dtype)
        tensors_[name] = {*dtype, entry.shape, data + entry.begin, static_cast<std::size_t>(entry.end - entry.begin)};
    }
  } catch (...) {
    ::munmap(const_cast<std::byte*>(map_), size_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  ::munmap(const_cast<std::byte*>(map_), size_);
}

const SafeTensor& SafetensorsFile::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  const auto unread = unread_.find(name);
  if (unread != unread_.end())
    refuse(path_, "tensor \"" + name + "\" is of type " + unread->second + ", which holds no numbers for us");
  const auto nearer = [&](const auto& a, const auto& b) {
    return edit_distance(name, a.first) < edit_distance(name, b.first);
  };
  const auto nearest = std::min_element(tensors_.begin(), tensors_.end(), nearer);
  if (nearest == tensors_.end()) refuse(path_, "has no tensor \"" + name + "\", it has none at all");
  refuse(path_, "has no tensor \"" + name + "\"; the nearest of its " + std::to_string(tensors_.size()) +
                    " names is \"" + nearest->first + "\"");
}

std::vector<double> SafetensorsFile::values(const std::string& name) const {
  const SafeTensor& tensor = at(name);
  if (const auto values = values_of(tensor, {0, tensor.count()})) return *values;
  refuse(path_,
         "tensor \"" + name + "\" is of type " + name_of(tensor.dtype) + ", which means nothing without its scales");
}

std::optional<std::vector<double>> values_of(const SafeTensor& tensor, Range part) {
  switch (tensor.dtype) {
    case DType::f64:
      return as_doubles<double>(tensor, part);
    case DType::f32:
      return as_doubles<float>(tensor, part);
    case DType::bf16:
      return as_doubles<Bf16>(tensor, part);
    case DType::f16:
      return as_doubles<F16>(tensor, part);
    case DType::i64:
      return as_doubles<std::int64_t>(tensor, part);
    case DType::i32:
      return as_doubles<std::int32_t>(tensor, part);
    case DType::u16:
      return as_doubles<std::uint16_t>(tensor, part);
    case DType::u8:
      return as_doubles<std::uint8_t>(tensor, part);
    case DType::e4m3:
    case DType::e5m2:
      break;
  }
  return std::nullopt;
}

}  // namespace trireme
