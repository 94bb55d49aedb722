#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "checkpoint_file.h"
#include "convert.h"
#include "h5.h"
#include "staging.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/base/version.h"
#include "trireme/io/checkpoint.h"

namespace trireme {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  const int error = errno;
  std::string advice;
  if (error == ENOSPC || error == EDQUOT)
    advice = "; free some space, lower checkpoint.keep, or point run.output elsewhere";
  if (error == ENOENT || error == EACCES || error == EROFS) advice = "; check run.output and its permissions";
  throw Error(Exit::data, path + ": " + what + ": " + std::strerror(error) + advice);
}

// A file descriptor for the few calls that HDF5 does not make.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, const char* what)
      : path_(path), file_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (file_ < 0) fail(path, what);
  }
  ~Descriptor() { ::close(file_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  // Asks the file system for the space now, where it can promise it: a full disk is met before any collective write.
  void reserve(std::int64_t bytes, int mode) const {
    if (bytes == 0 || ::fallocate(file_, mode, 0, bytes) == 0) return;
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) no_room(bytes);
    struct statvfs disk {};
    if (::fstatvfs(file_, &disk) != 0 || disk.f_bavail >= static_cast<std::uint64_t>(bytes) / disk.f_frsize) return;
    errno = ENOSPC;
    no_room(bytes);
  }
  void resize(std::int64_t bytes) const {
    if (::ftruncate(file_, bytes) != 0) no_room(bytes);
  }
  void sync() const {
    if (::fsync(file_) != 0 && errno != EINVAL) fail(path_, "could not be brought to the disk");
  }

 private:
  [[noreturn]] void no_room(std::int64_t bytes) const {
    fail(path_, "no room for " + bytes_text(static_cast<double>(bytes)));
  }

  std::string path_;
  int file_;
};

std::int64_t bytes_in_file(const std::vector<Stored>& arrays) {
  std::int64_t bytes = 0;
  for (const Stored& array : arrays)
    bytes += round_up(array.global.count() * static_cast<std::int64_t>(size_of(array.dtype)), 4096);
  return bytes;
}

// What this rank writes of each array, and how often all ranks must meet for it.
std::vector<ArrayPlan> plan_writing(const std::vector<Stored>& arrays, const Ranks& ranks, std::int64_t round_bytes) {
  std::vector<ArrayPlan> plans;
  ranks.together([&] {
    for (const Stored& array : arrays) {
      for (const StoredPiece& piece : array.pieces) {
        require(can_convert(array.dtype, piece.data.dtype),
                array.path + ": a piece cannot become the dtype of the file");
      }
      plans.push_back(array.writes ? plan_array(array, array.dtype, round_bytes) : ArrayPlan{});
    }
  });
  agree_on_rounds(plans, ranks);
  std::vector<std::uint64_t> counts = counts_of(plans);
  ranks.sum(counts);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto expected = static_cast<std::uint64_t>(arrays[i].global.count());
    require(counts[i] == expected, arrays[i].path + ": the ranks write " + std::to_string(counts[i]) + " elements of " +
                                       std::to_string(expected));
  }
  return plans;
}

std::vector<H5Array> create_arrays(H5File& file, const std::vector<Stored>& arrays) {
  std::vector<H5Array> created;
  for (const Stored& array : arrays) {
    created.push_back(file.create_array(array.path, array.dtype, array.global));
    if (!array.hf_names.empty()) file.set_text(created.back(), "hf_names", array.hf_names);
  }
  return created;
}

void write_root(H5File& file, const Attributes& attributes) {
  file.set_text(k_filetype_name, k_filetype);
  file.set_number(k_version_name, k_checkpoint_version);
  file.set_text("program", "trireme " + version());
  for (const auto& [name, value] : attributes) file.set_text(name, value);
}

std::uint64_t write_array(H5File& file, const H5Array& target, const Stored& array, const ArrayPlan& plan,
                          Staging& staging, const Ranks& ranks) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < plan.n_meetings; ++i) {
    const Round round = plan.round(i);
    ranks.together([&] {
      const Runs runs = runs_of(array, round);
      staging.from_pieces(array, round, runs, array.dtype);
      sum += staging.sum(round, runs, array.dtype);
    });
    ranks.together([&] { file.write(target, round.boxes, staging.buffer(round, array.dtype)); });
  }
  return sum;
}

// Everything that can be known before HDF5 is: HDF5 cannot end in peace with a file whose close has failed.
void try_size(const std::string& part, std::int64_t bytes) {
  const Descriptor file(part, O_WRONLY | O_CREAT | O_TRUNC, "cannot be written");
  file.resize(bytes);
  file.reserve(bytes, 0);
  file.resize(0);
}

void write_arrays(H5File& file, std::vector<H5Array> targets, const std::vector<Stored>& arrays,
                  const std::vector<ArrayPlan>& plans, const Ranks& ranks, Backend& backend) {
  Staging staging(backend);
  std::vector<std::uint64_t> sums;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    sums.push_back(write_array(file, targets[i], arrays[i], plans[i], staging, ranks));
  }
  ranks.sum(sums);
  ranks.together([&] {
    for (std::size_t i = 0; i < arrays.size(); ++i) file.set_text(targets[i], k_checksum_name, checksum_text(sums[i]));
    targets.clear();
    file.flush();
  });
}

void write_file(const std::string& part, const std::vector<Stored>& arrays, const Attributes& attributes,
                const std::vector<ArrayPlan>& plans, const Ranks& ranks, Backend& backend) {
  const std::int64_t bytes = bytes_in_file(arrays);
  std::optional<H5File> file;
  ranks.first_alone([&] { try_size(part, bytes); });
  ranks.together([&] { file = H5File::create(part, ranks); });
  try {
    std::vector<H5Array> targets;
    ranks.together([&] {
      write_root(*file, attributes);
      targets = create_arrays(*file, arrays);
    });
    ranks.first_alone([&] { Descriptor(part, O_WRONLY, "cannot be written").reserve(bytes, FALLOC_FL_KEEP_SIZE); });
    write_arrays(*file, std::move(targets), arrays, plans, ranks, backend);
    ranks.together([&] {
      file->set_number(k_complete_name, 1);
      file->close();
    });
  } catch (...) {
    ranks.first_alone([&] { Descriptor(part, O_WRONLY, "cannot be emptied").resize(0); });  // room for HDF5 to close it
    throw;
  }
}

// The order that survives a crash at any point: contents, name, folder.
void publish(const std::string& part, const std::string& path) {
  Descriptor(part, O_RDWR, "cannot be synced").sync();
  if (std::rename(part.c_str(), path.c_str()) != 0) fail(part, "could not be renamed to " + path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  Descriptor(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY, "cannot be synced").sync();
}

}  // namespace

void save_checkpoint(const std::string& path, const std::vector<Stored>& arrays, const Attributes& attributes,
                     Communicator& control, Backend& backend, std::int64_t round_bytes) {
  const Ranks ranks(control);
  const std::string part = path + ".part";
  const std::vector<ArrayPlan> plans = plan_writing(arrays, ranks, round_bytes);
  try {
    write_file(part, arrays, attributes, plans, ranks, backend);
    ranks.first_alone([&] { publish(part, path); });
  } catch (...) {
    if (ranks.rank() == 0) ::unlink(part.c_str());
    throw;
  }
}

void save_checkpoint(const std::string& path, const std::vector<Stored>& arrays, const Attributes& attributes,
                     Communicator& control, Backend& backend) {
  save_checkpoint(path, arrays, attributes, control, backend, k_round_bytes);
}

}  // namespace trireme
