#pragma once
// Small files for the tests of this folder, removed with the folder they lie in.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace trireme {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }

 private:
  std::string path_;
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A Megatron index as preprocess_data.py lays it out.
struct IndexBytes {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  std::uint8_t code = 8;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> offsets, documents;

  std::string bytes() const {
    const std::vector<std::uint64_t> counts{lengths.size(), documents.size()};
    return magic + bytes_of(std::vector<std::uint64_t>{version}) + bytes_of(std::vector<std::uint8_t>{code}) +
           bytes_of(counts) + bytes_of(lengths) + bytes_of(offsets) + bytes_of(documents);
  }
};

inline IndexBytes index_of(std::uint8_t code, int element_bytes, const std::vector<std::int32_t>& lengths) {
  IndexBytes index;
  index.code = code;
  index.lengths = lengths;
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths) {
    index.offsets.push_back(offset);
    offset += static_cast<std::int64_t>(length) * element_bytes;
  }
  for (std::size_t i = 0; i <= lengths.size(); ++i) index.documents.push_back(static_cast<std::int64_t>(i));
  return index;
}

}  // namespace trireme
