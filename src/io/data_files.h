#pragma once
// The files of a checkpoint as one rank reads and writes their data: plain descriptors, opened when they are first
// needed. It knows neither HDF5 nor arrays; what fails throws Error(Exit::data) with the file and what to do.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "place.h"

namespace trireme {

// Throws with errno's text: "PATH: WHAT: No space left on device; free some space, ...".
[[noreturn]] void fail_with_errno(const std::string& path, const std::string& what);

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, const char* what);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;

  // Asks the file system for the space now, where it can promise it; mode as in fallocate.
  void reserve(std::int64_t bytes, int mode) const;
  void resize(std::int64_t bytes) const;
  void sync() const;
  // Moves what consecutive segments of the file hold; they follow each other without a gap.
  void write(std::span<const Segment> segments, const std::byte* memory) const;
  void read(std::span<const Segment> segments, std::byte* memory) const;

 private:
  [[noreturn]] void no_room(std::int64_t bytes) const;

  std::string path_;
  int file_;
};

class DataFiles {
 public:
  enum class Mode : std::uint8_t { reading, writing };
  DataFiles(std::vector<std::string> paths, Mode mode) : paths_(std::move(paths)), mode_(mode) {}
  void write(std::span<const Segment> segments, const std::byte* memory);
  void read(std::span<const Segment> segments, std::byte* memory);
  void sync();  // brings what this rank wrote to the disk

 private:
  Descriptor& at(std::int64_t file);

  std::vector<std::string> paths_;
  Mode mode_;
  std::vector<std::pair<std::int64_t, Descriptor>> open_;
};

}  // namespace trireme
