#pragma once
// Memory that lies in files: the kernel writes it back when memory is short, so that what is held does not grow with
// the model. Space on the disk is taken when it is asked for, so that a full disk is an error and no signal.

#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

// A new file of a given size, mapped for writing.
class MappedFile {
 public:
  MappedFile(const std::string& path, std::size_t bytes);  // throws Error(Exit::data)
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::byte* data() const { return data_; }
  void sync() const;  // to the disk; throws Error(Exit::data)

 private:
  std::string path_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Pieces of memory for a while, in nameless files of `folder`.
class Spill {
 public:
  explicit Spill(std::string folder) : folder_(std::move(folder)) {}
  std::byte* take(std::size_t bytes);

 private:
  std::string folder_;
  std::vector<MappedFile> files_;
};

}  // namespace trireme
