#include "input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/check.h"

namespace trireme {

namespace {

[[noreturn]] void refuse(const std::string& key, const std::string& path, const std::string& why) {
  throw Error(Exit::data, key + ": " + path + " " + why);
}

}  // namespace

InputFile::InputFile(const std::string& path, const std::string& key) : path_(path) {
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) {
    if (errno == ENOENT) refuse(key, path, "does not exist; paths are relative to the deck that names them");
    if (errno == EMFILE)
      refuse(key, path, "cannot be opened: too many open files; raise `ulimit -n` or merge the files");
    refuse(key, path, "cannot be read: " + std::string(std::strerror(errno)));
  }
  struct stat status {};
  const bool known = ::fstat(file_, &status) == 0;
  const int error = errno;
  const bool regular = known && S_ISREG(status.st_mode);
  if (regular && status.st_size > 0) {
    size_ = status.st_size;
    return;
  }
  ::close(std::exchange(file_, -1));
  if (!known) refuse(key, path, "cannot be examined: " + std::string(std::strerror(error)));
  if (S_ISDIR(status.st_mode)) refuse(key, path, "is a folder; name the files in it one by one");
  refuse(key, path, regular ? "is empty" : "is not a regular file");
}

InputFile::~InputFile() {
  if (file_ >= 0) ::close(file_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), size_(other.size_) {}

void InputFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::pread(file_, bytes.data() + done, bytes.size() - done, offset + static_cast<off_t>(done));
    if (n > 0) done += static_cast<std::size_t>(n);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    const std::string place =
        path_ + ": reading " + std::to_string(bytes.size()) + " bytes at offset " + std::to_string(offset);
    if (n < 0) throw Error(Exit::data, place + " failed: " + std::strerror(errno));
    throw Error(Exit::data, place + " met the end of the file, which had " + std::to_string(size_) +
                                " bytes when it was opened: it has been cut short since");
  }
}

std::vector<Range> sampled_blocks(std::int64_t size) {
  return sampled_blocks(size, 1 << 20);
}

std::vector<Range> sampled_blocks(std::int64_t size, std::int64_t block) {
  constexpr std::int64_t k_block = 1 << 20, k_n_blocks = 64;
  std::vector<Range> blocks;
  if (size <= k_n_blocks * k_block) {
    for (std::int64_t first = 0; first < size; first += k_block)
      blocks.push_back({first, std::min(first + k_block, size)});
    return blocks;
  }
  const double step = static_cast<double>(size - block) / (k_n_blocks - 1);
  for (std::int64_t i = 0; i < k_n_blocks; ++i) {
    const auto between = static_cast<std::int64_t>(step * static_cast<double>(i));
    const std::int64_t first = i + 1 == k_n_blocks ? size - block : between;
    blocks.push_back({first, first + block});
  }
  return blocks;
}

void ContentHash::add(std::uint64_t word) {
  hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15ULL;
  hash_ ^= hash_ >> 29;
}

void ContentHash::add(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, bytes.size() - i));
    add(word);
  }
}

}  // namespace trireme
