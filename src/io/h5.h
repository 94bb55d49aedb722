#pragma once
// HDF5 behind a few calls: files, arrays of our element types, boxes of them, attributes. No header of HDF5 appears
// here; its errors become Error(Exit::data) with HDF5's own explanation. It knows nothing of checkpoints.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "h5_ranks.h"
#include "trireme/base/dtype.h"
#include "trireme/base/shape.h"

namespace trireme {

// One HDF5 identifier, closed at the end of its life. Closing a file of several ranks is collective, so these objects
// live only where all ranks leave a scope by the same way (Ranks::together).
class H5Object {
 public:
  using Close = int (*)(std::int64_t);
  H5Object() = default;
  H5Object(std::int64_t id, Close close) : id_(id), close_(close) {}
  ~H5Object();
  H5Object(H5Object&& other) noexcept;
  H5Object& operator=(H5Object&& other) noexcept;

  std::int64_t id() const { return id_; }
  // Closes now; false when HDF5 could not.
  bool close();

 private:
  std::int64_t id_ = -1;
  Close close_ = nullptr;
};

// A dataset. Of `dtype` when the file says so in a way we know, see H5File::find_array.
struct H5Array {
  std::string path;
  H5Object object;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
};

class H5File {
 public:
  // Collective over the ranks when there are several; every function below that takes part in writing is, too.
  static H5File create(const std::string& path, const Ranks& ranks);
  static H5File open(const std::string& path, const Ranks& ranks);
  static H5File open_alone(const std::string& path);  // one process, no MPI

  // Contiguous, never filled; intermediate groups are made.
  H5Array create_array(const std::string& path, DType dtype, const Shape& shape);
  bool has(const std::string& path) const;
  // Throws Error(Exit::data) when it is no dataset of a dtype that create_array writes.
  H5Array find_array(const std::string& path) const;
  std::vector<std::string> array_paths() const;  // of the whole file, sorted

  // The elements of the union of `boxes`, in row-major order of the array. No boxes: only takes part.
  void write(const H5Array& array, std::span<const Box> boxes, const std::byte* data);
  void read(const H5Array& array, std::span<const Box> boxes, std::byte* data) const;

  void set_text(const H5Array& array, const std::string& name, const std::string& value);
  void set_text(const std::string& name, const std::string& value);  // of the root group
  void set_number(const std::string& name, std::int64_t value);
  std::optional<std::string> text(const H5Array& array, const std::string& name) const;
  std::optional<std::string> text(const std::string& name) const;
  std::optional<std::int64_t> number(const std::string& name) const;
  std::vector<std::string> attribute_names() const;  // of the root group, sorted

  void flush();  // to the disk, on every rank
  void close();

 private:
  H5File(std::string path, H5Object file, H5Object transfer);

  std::string path_;
  H5Object file_, transfer_;  // transfer: how data move (collective or not)
};

}  // namespace trireme
