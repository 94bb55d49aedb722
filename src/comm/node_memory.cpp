#include "trireme/comm/node_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trireme/base/check.h"

namespace trireme {

namespace {

[[noreturn]] void fail(const std::string& what, int code) {
  throw Error(Exit::rank, "cannot " + what + ": " + std::strerror(code) +
                              "; ranks of a node share a little memory through /dev/shm: mount it and leave a few MiB");
}

}  // namespace

NodeMemory::NodeMemory(const std::string& name, Role role, std::size_t bytes_per_rank, int n_ranks)
    : bytes_per_rank_(bytes_per_rank), n_ranks_(n_ranks) {
  const bool creates = role == Role::creates;
  const int file = shm_open(name.c_str(), creates ? O_CREAT | O_EXCL | O_RDWR : O_RDWR, S_IRUSR | S_IWUSR);
  if (file < 0) fail(std::string(creates ? "create" : "open") + " the shared memory " + name, errno);
  const std::size_t bytes = bytes_per_rank * static_cast<std::size_t>(n_ranks);
  // Reserved now: a full /dev/shm would otherwise end a rank at its first write.
  const int reserved = creates ? posix_fallocate(file, 0, static_cast<off_t>(bytes)) : 0;
  void* memory = reserved == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int code = reserved != 0 ? reserved : errno;
  close(file);
  if (memory == MAP_FAILED) {
    if (creates) remove_name(name);
    fail("take " + std::to_string(bytes) + " bytes of the shared memory " + name, code);
  }
  data_ = static_cast<std::byte*>(memory);
}

NodeMemory::~NodeMemory() {
  munmap(data_, bytes_per_rank_ * static_cast<std::size_t>(n_ranks_));
}

void NodeMemory::remove_name(const std::string& name) {
  shm_unlink(name.c_str());
}

}  // namespace trireme
