#pragma once
// HDF5 behind a few calls: files, arrays of our element types, boxes of them, attributes. No header of HDF5 appears
// here; its errors become Error(Exit::data) with HDF5's own explanation. It knows nothing of checkpoints.

#include <cstdint>
#include <map>
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

// Settings of MPI-IO by name: "striping_factor", "cb_nodes".
using Hints = std::map<std::string, std::string>;

// Rows of a virtual array that are the whole of an array of the same path in another file, named from the folder of
// the file that holds the virtual one.
struct VirtualPart {
  std::string file;
  Range rows;
};

class H5File {
 public:
  // One process, no MPI. Large arrays begin at multiples of align bytes.
  static H5File create(const std::string& path, std::int64_t align);
  static H5File open_alone(const std::string& path);       // to read
  static H5File open_for_change(const std::string& path);  // to replace values
  // Collective over the ranks when there are several, as is write() afterwards: the arrays are there already.
  static H5File open_together(const std::string& path, const Ranks& ranks, const Hints& hints);

  // Never filled, its place in the file fixed at once; contiguous, or in blocks of `chunk` (rank 0: none).
  // Intermediate groups are made.
  H5Array create_array(const std::string& path, DType dtype, const Shape& shape, const Shape& chunk);
  H5Array create_virtual(const std::string& path, DType dtype, const Shape& shape, std::span<const VirtualPart> parts);
  // Where the array begins in the file, when its elements lie there as they are: contiguous, or equal blocks in order.
  std::optional<std::int64_t> address(const H5Array& array) const;
  Shape chunk(const H5Array& array) const;                             // rank 0: contiguous
  std::vector<VirtualPart> virtual_parts(const H5Array& array) const;  // none: not a virtual array of our making
  bool has(const std::string& path) const;
  // Throws Error(Exit::data) when it is no dataset of a dtype that create_array writes.
  H5Array find_array(const std::string& path) const;
  std::vector<std::string> array_paths() const;  // of the whole file, sorted

  // The elements of the union of `boxes`, in row-major order of the array. No boxes: only takes part. Not the fastest
  // way (see place.h), but one that leaves the layout of the file to HDF5.
  void write(const H5Array& array, std::span<const Box> boxes, const std::byte* data);
  void read(const H5Array& array, std::span<const Box> boxes, std::byte* data) const;

  void set_text(const H5Array& array, const std::string& name, const std::string& value);
  void set_text(const std::string& name, const std::string& value);  // of the root group
  void set_number(const std::string& name, std::int64_t value);
  // Of an attribute that is there, with a value of the same size: nothing in the file moves.
  void replace_text(const H5Array& array, const std::string& name, const std::string& value);
  void replace_number(const std::string& name, std::int64_t value);
  std::optional<std::string> text(const H5Array& array, const std::string& name) const;
  std::optional<std::string> text(const std::string& name) const;
  std::optional<std::int64_t> number(const std::string& name) const;
  std::vector<std::string> attribute_names() const;  // of the root group, sorted

  void close();

 private:
  H5File(std::string path, H5Object file, H5Object transfer);

  std::string path_;
  H5Object file_, transfer_;  // transfer: how data move (collective or not)
};

}  // namespace trireme

namespace trireme {

// Makes an empty file in the way that MPI-IO makes it with these hints: on parallel file systems the stripes of a file
// are chosen when it is created. One process.
void create_with_hints(const std::string& path, const Hints& hints);

}  // namespace trireme
