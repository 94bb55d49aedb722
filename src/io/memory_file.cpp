#include "memory_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr std::int64_t k_page = 4096;

// Pages by offset: the contents come as such, and comparing is then simple.
void append_pages(std::vector<Patch>& pages, int file, std::int64_t first, std::int64_t last) {
  for (std::int64_t at = first / k_page * k_page; at < last; at += k_page) {
    Patch page{at, std::vector<std::byte>(k_page)};
    const ssize_t n = ::pread(file, page.bytes.data(), page.bytes.size(), at);
    if (n < 0) fail_with_errno("a file in memory", "reading failed");
    page.bytes.resize(static_cast<std::size_t>(n));
    if (n > 0) pages.push_back(std::move(page));
  }
}

}  // namespace

MemoryFile::MemoryFile() = default;

MemoryFile::~MemoryFile() {
  vanish();
  if (file_ >= 0) ::close(file_);
}

MemoryFile::MemoryFile(MemoryFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)), name_(std::exchange(other.name_, "")) {}

// A name once gone does not come back: the contents move to a new file.
std::string MemoryFile::appear() {
  const std::vector<Patch> kept = file_ >= 0 ? contents() : std::vector<Patch>{};
  const std::int64_t bytes = file_ >= 0 ? size() : 0;
  std::error_code error;
  const std::filesystem::path memory = "/dev/shm", disk = std::filesystem::temp_directory_path(error);
  std::string name = ((::access(memory.c_str(), W_OK) == 0 ? memory : disk) / "trireme_checkpoint_XXXXXX").string();
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) fail_with_errno(name, "a small temporary file cannot be made");
  if (file_ >= 0) ::close(file_);
  file_ = file;
  name_ = name;
  if (::ftruncate(file_, bytes) != 0) fail_with_errno(name, "cannot be resized");
  write_patches(Descriptor(name, O_WRONLY, "cannot be written"), kept);
  return name_;
}

void MemoryFile::vanish() {
  if (!name_.empty()) ::unlink(name_.c_str());
  name_.clear();
}

std::int64_t MemoryFile::size() const {
  struct stat status {};
  if (::fstat(file_, &status) != 0) fail_with_errno("a file in memory", "has no size");
  return status.st_size;
}

void MemoryFile::try_size(std::int64_t bytes, const std::string& path) const {
  const std::int64_t before = size();
  if (::ftruncate(file_, bytes) != 0 || ::ftruncate(file_, before) != 0)
    fail_with_errno(path, "no room for " + bytes_text(static_cast<double>(bytes)) + " in one file (ulimit -f?)");
}

std::vector<Patch> MemoryFile::contents() const {
  std::vector<Patch> pages;
  for (off_t at = 0;;) {
    const off_t data = ::lseek(file_, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return pages;
    const off_t hole = data < 0 ? -1 : ::lseek(file_, data, SEEK_HOLE);
    if (hole < 0) fail_with_errno("a file in memory", "searching what is written failed");
    append_pages(pages, file_, data, hole);
    at = hole;
  }
}

std::vector<Patch> changes(const std::vector<Patch>& before, const std::vector<Patch>& now) {
  std::map<std::int64_t, const Patch*> old;
  for (const Patch& page : before) old[page.offset] = &page;
  std::vector<Patch> changed;
  for (const Patch& page : now) {
    const auto found = old.find(page.offset);
    bool runs = false;
    for (std::size_t i = 0; i < page.bytes.size(); ++i) {
      const bool known = found != old.end() && i < found->second->bytes.size();
      const bool differs = page.bytes[i] != (known ? found->second->bytes[i] : std::byte{0});
      if (differs && !runs) changed.push_back({page.offset + static_cast<std::int64_t>(i), {}});
      if (differs) changed.back().bytes.push_back(page.bytes[i]);
      runs = differs;
    }
  }
  return changed;
}

void write_patches(const Descriptor& file, const std::vector<Patch>& patches) {
  for (const Patch& patch : patches) {
    const Segment whole{0, patch.offset, 0, std::ssize(patch.bytes)};
    file.write({&whole, 1}, patch.bytes.data());
  }
}

}  // namespace trireme
