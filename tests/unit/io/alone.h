#pragma once
// A process alone with its checkpoints: backend, communicator, folder, and arrays in one piece.

#include <memory>
#include <string>
#include <vector>

#include "files.h"
#include "held_array.h"
#include "trireme/io/checkpoint.h"

namespace trireme::test {

struct Alone {
  std::unique_ptr<Backend> backend = make_cpu_backend(1);
  std::unique_ptr<Communicator> ranks = make_self_communicator(*backend);
  TemporaryFolder folder;

  void save(const std::string& path, const std::vector<Stored>& arrays, const Attributes& attributes) {
    save_checkpoint(path, arrays, attributes, *ranks, *backend, {});
  }
  void save(const std::string& path, const std::vector<Stored>& arrays) { save(path, arrays, {}); }
  void load(const std::string& path, const std::vector<Stored>& arrays) {
    load_checkpoint(path, arrays, *ranks, *backend);
  }
  std::string saved_zoo(const std::string& name) {
    HeldArrays arrays = zoo(1, 0, 1);
    arrays.fill();
    save(folder / name, arrays.stored(), {{"step", "5"}});
    return folder / name;
  }
};

inline Stored whole(const std::string& path, DType file_dtype, const Shape& shape, DType dtype, void* data) {
  Box box;
  box.extent = shape;
  box.offset.rank = shape.rank;
  return {path, shape, file_dtype, {{box, Tensor(static_cast<std::byte*>(data), dtype, shape), true, {}}},
          "",   {},    0,          ""};
}

}  // namespace trireme::test
