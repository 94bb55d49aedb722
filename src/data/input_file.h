#pragma once
// A data file opened for reading at any place, and a hash of its contents. It knows bytes, not tokens.
// pread and not mmap: a file that shrinks under a running job becomes an Error instead of a SIGBUS.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/shape.h"

namespace trireme {

class InputFile {
 public:
  // `key` is the deck key that named the file, for messages. Throws Error(Exit::data): missing, a folder, unreadable,
  // empty.
  InputFile(const std::string& path, const std::string& key);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  // Fills `bytes` from `offset` or throws Error(Exit::data). Safe from several threads.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;

 private:
  std::string path_;
  int file_ = -1;
  std::int64_t size_ = 0;
};

// The parts of a file that are looked at when it is opened and hashed: everything up to 64 MiB, of a longer file the
// first MiB, the last MiB and 62 between them, evenly spaced. Start-up must not read terabytes on every rank.
std::vector<Range> sampled_blocks(std::int64_t size);
// The same with blocks of another size where not everything is looked at.
std::vector<Range> sampled_blocks(std::int64_t size, std::int64_t block);

// 64-bit hash of a stream of bytes, read as little-endian words (a final short word is padded with zeros); not
// cryptographic: it notices another file, not an adversary.
class ContentHash {
 public:
  void add(std::span<const std::byte> bytes);
  void add(std::uint64_t word);
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

}  // namespace trireme
