#include "mapped.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what, int error) {
  throw Error(Exit::data, path + ": " + what + ": " + std::strerror(error) + "; check the folder and its free space");
}

}  // namespace

MappedFile::MappedFile(const std::string& path, std::size_t bytes) : path_(path), bytes_(bytes) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) fail(path, "cannot be written", errno);
  const int error = bytes == 0 ? 0 : ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* map = error == 0 && bytes > 0 ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : nullptr;
  const int map_error = errno;
  ::close(file);
  if (error != 0) fail(path, "no room for " + bytes_text(static_cast<double>(bytes)), error);
  if (map == MAP_FAILED) fail(path, "cannot be mapped", map_error);
  data_ = static_cast<std::byte*>(map);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void MappedFile::sync() const {
  if (data_ != nullptr && ::msync(data_, bytes_, MS_SYNC) != 0) fail(path_, "could not be brought to the disk", errno);
}

std::byte* Spill::take(std::size_t bytes) {
  const std::string path =
      folder_ + "/.trireme_spill_" + std::to_string(::getpid()) + "_" + std::to_string(files_.size());
  files_.emplace_back(path, bytes);
  ::unlink(path.c_str());
  return files_.back().data();
}

}  // namespace trireme
