#include "data_files.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr std::size_t k_pieces_per_call = 512;  // below IOV_MAX of every system

using Vectors = std::array<iovec, k_pieces_per_call>;

// The first segments without a gap between them, as many as one call takes.
std::size_t n_together(std::span<const Segment> segments) {
  std::size_t n = 1;
  while (n < segments.size() && n < k_pieces_per_call && segments[n].file == segments[0].file &&
         segments[n - 1].offset + segments[n - 1].bytes == segments[n].offset) {
    ++n;
  }
  return n;
}

// What is left of the segments when `done` bytes have been moved.
std::size_t fill(Vectors& vectors, std::span<const Segment> segments, std::byte* memory, std::int64_t done) {
  std::size_t n = 0;
  for (const Segment& segment : segments) {
    const std::int64_t skip = std::min(done, segment.bytes);
    done -= skip;
    if (skip == segment.bytes) continue;
    vectors[n++] = {memory + segment.from + skip, static_cast<std::size_t>(segment.bytes - skip)};
  }
  return n;
}

std::int64_t bytes_of(std::span<const Segment> segments) {
  std::int64_t bytes = 0;
  for (const Segment& segment : segments) bytes += segment.bytes;
  return bytes;
}

}  // namespace

void fail_with_errno(const std::string& path, const std::string& what) {
  const int error = errno;
  std::string advice;
  if (error == ENOSPC || error == EDQUOT)
    advice = "; free some space, lower checkpoint.keep, or point run.output elsewhere";
  if (error == ENOENT || error == EACCES || error == EROFS) advice = "; check run.output and its permissions";
  throw Error(Exit::data, path + ": " + what + ": " + std::strerror(error) + advice);
}

Descriptor::Descriptor(const std::string& path, int flags, const char* what)
    : path_(path), file_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
  if (file_ < 0) fail_with_errno(path, what);
}

Descriptor::~Descriptor() {
  if (file_ >= 0) ::close(file_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

void Descriptor::reserve(std::int64_t bytes, int mode) const {
  if (bytes == 0 || ::fallocate(file_, mode, 0, bytes) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) no_room(bytes);
  struct statvfs disk {};
  if (::fstatvfs(file_, &disk) != 0 || disk.f_bavail >= static_cast<std::uint64_t>(bytes) / disk.f_frsize) return;
  errno = ENOSPC;
  no_room(bytes);
}

void Descriptor::resize(std::int64_t bytes) const {
  if (::ftruncate(file_, bytes) != 0) no_room(bytes);
}

void Descriptor::sync() const {
  if (::fsync(file_) != 0 && errno != EINVAL) fail_with_errno(path_, "could not be brought to the disk");
}

void Descriptor::no_room(std::int64_t bytes) const {
  fail_with_errno(path_, "no room for " + bytes_text(static_cast<double>(bytes)));
}

void Descriptor::write(std::span<const Segment> segments, const std::byte* memory) const {
  Vectors vectors;
  const std::int64_t bytes = bytes_of(segments);
  for (std::int64_t done = 0; done < bytes;) {
    const std::size_t n = fill(vectors, segments, const_cast<std::byte*>(memory), done);
    const ssize_t moved = ::pwritev(file_, vectors.data(), static_cast<int>(n), segments[0].offset + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved == 0) errno = ENOSPC;
    if (moved <= 0) fail_with_errno(path_, "writing " + bytes_text(static_cast<double>(bytes)) + " failed");
    done += moved;
  }
}

void Descriptor::read(std::span<const Segment> segments, std::byte* memory) const {
  Vectors vectors;
  const std::int64_t bytes = bytes_of(segments);
  for (std::int64_t done = 0; done < bytes;) {
    const std::size_t n = fill(vectors, segments, memory, done);
    const ssize_t moved = ::preadv(file_, vectors.data(), static_cast<int>(n), segments[0].offset + done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) fail_with_errno(path_, "reading " + bytes_text(static_cast<double>(bytes)) + " failed");
    if (moved == 0)
      throw Error(Exit::data,
                  path_ + ": is cut short: it ends before byte " + std::to_string(segments[0].offset + bytes));
    done += moved;
  }
}

Descriptor& DataFiles::at(std::int64_t file) {
  for (auto& [index, descriptor] : open_) {
    if (index == file) return descriptor;
  }
  const bool reads = mode_ == Mode::reading;
  open_.emplace_back(file, Descriptor(paths_[static_cast<std::size_t>(file)], reads ? O_RDONLY : O_WRONLY,
                                      reads ? "cannot be opened for reading" : "cannot be written"));
  return open_.back().second;
}

void DataFiles::write(std::span<const Segment> segments, const std::byte* memory) {
  for (std::size_t n = 0; !segments.empty(); segments = segments.subspan(n)) {
    n = n_together(segments);
    at(segments[0].file).write(segments.first(n), memory);
  }
}

void DataFiles::read(std::span<const Segment> segments, std::byte* memory) {
  for (std::size_t n = 0; !segments.empty(); segments = segments.subspan(n)) {
    n = n_together(segments);
    at(segments[0].file).read(segments.first(n), memory);
  }
}

void DataFiles::sync() {
  for (const auto& [file, descriptor] : open_) descriptor.sync();
}

}  // namespace trireme
