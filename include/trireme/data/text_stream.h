#pragma once
// The bytes of a text file from its beginning to its end: plain, gzip or zstd (told by its first bytes), or standard
// input. It does not seek and knows no lines.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace trireme {

class TextStream {
 public:
  // "-" is standard input. Throws Error(Exit::data) for files that are missing, unreadable or, later, damaged.
  explicit TextStream(const std::string& path);
  ~TextStream();
  TextStream(const TextStream&) = delete;
  std::size_t read(std::span<char> bytes);  // how many; 0 at the end
  std::int64_t consumed() const;            // bytes of the file itself, for progress
  const std::string& name() const { return name_; }

 private:
  struct Source;
  struct Gzip;
  struct Zstd;
  std::string name_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<Gzip> gzip_;
  std::unique_ptr<Zstd> zstd_;
};

}  // namespace trireme
