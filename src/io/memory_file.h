#pragma once
// A file in memory (below /dev/shm, else in the folder for temporary files) that HDF5 writes its metadata to, and what
// of it is not empty. HDF5 cannot end in peace with a file whose close has failed; so it never writes to a disk, and
// what it has written is brought there by calls whose errors can be told. Only what has been written takes memory,
// however large the file claims to be.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data_files.h"

namespace trireme {

// Bytes at an offset.
struct Patch {
  std::int64_t offset = 0;
  std::vector<std::byte> bytes;
};

class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept;
  MemoryFile& operator=(MemoryFile&&) = delete;

  // HDF5 opens files by name: this one has a name from appear() to vanish(), which may be as soon as it is open.
  std::string appear();
  void vanish();
  std::int64_t size() const;
  // Throws, speaking of `path`, when this process may not make files of so many bytes (ulimit -f).
  void try_size(std::int64_t bytes, const std::string& path) const;
  std::vector<Patch> contents() const;  // what has been written, page by page

 private:
  int file_ = -1;
  std::string name_;
};

// The bytes of `now` that differ from `before`, where what is absent is zero.
std::vector<Patch> changes(const std::vector<Patch>& before, const std::vector<Patch>& now);
void write_patches(const Descriptor& file, const std::vector<Patch>& patches);

}  // namespace trireme
