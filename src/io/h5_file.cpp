#include <mpi.h>

#include <algorithm>

#include "h5_calls.h"
#include "h5_hints.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

// The format of HDF5 1.10 whatever the library, so that checkpoints travel between machines. No file locks: they fail
// on many parallel file systems, and the final rename already keeps readers from half-written files.
H5Object access_properties(std::int64_t align) {
  H5Object access = make_properties(H5P_FILE_ACCESS);
  check_h5(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110), "H5Pset_libver_bounds");
  check_h5(H5Pset_file_locking(access.id(), 0, 1), "H5Pset_file_locking");
  const auto bytes = static_cast<hsize_t>(align);  // stripes and pages of file systems
  check_h5(H5Pset_alignment(access.id(), bytes, bytes), "H5Pset_alignment");
  check_h5(H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG), "H5Pset_fclose_degree");
  return access;
}

void use_ranks(const H5Object& access, const H5Object& transfer, const Ranks& ranks, const Hints& hints) {
  if (ranks.alone()) return;
  MpiHints info(hints);
  check_h5(H5Pset_fapl_mpio(access.id(), (MPI_Comm)ranks.mpi_comm(), info.get()), "H5Pset_fapl_mpio");
  check_h5(H5Pset_all_coll_metadata_ops(access.id(), 1), "H5Pset_all_coll_metadata_ops");
  check_h5(H5Pset_coll_metadata_write(access.id(), 1), "H5Pset_coll_metadata_write");
  check_h5(H5Pset_dxpl_mpio(transfer.id(), H5FD_MPIO_COLLECTIVE), "H5Pset_dxpl_mpio");
}

// The union of the boxes in the file and as many elements of memory.
struct Selection {
  H5Object file, memory;
};

Selection select(const H5Array& array, std::span<const Box> boxes) {
  Selection selection;
  selection.file = H5Object(check_h5(H5Dget_space(array.object.id()), array.path + ": H5Dget_space"), H5Sclose);
  std::int64_t count = 0;
  H5S_seloper_t how = H5S_SELECT_SET;
  for (const Box& box : boxes) {
    const Sizes offset = sizes_of(box.offset), extent = sizes_of(box.extent);
    check_h5(H5Sselect_hyperslab(selection.file.id(), how, offset.data(), nullptr, extent.data(), nullptr),
             array.path + ": H5Sselect_hyperslab");
    how = H5S_SELECT_OR;
    count += box.count();
  }
  const auto n = static_cast<hsize_t>(std::max<std::int64_t>(count, 1));
  selection.memory = H5Object(check_h5(H5Screate_simple(1, &n, nullptr), array.path + ": H5Screate_simple"), H5Sclose);
  if (count > 0) return selection;
  check_h5(H5Sselect_none(selection.file.id()), "H5Sselect_none");
  check_h5(H5Sselect_none(selection.memory.id()), "H5Sselect_none");
  return selection;
}

herr_t append_if_array(hid_t, const char* name, const H5O_info_t* info, void* names) {
  if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(names)->push_back(std::string("/") + name);
  return 0;
}

}  // namespace

H5File::H5File(std::string path, H5Object file, H5Object transfer)
    : path_(std::move(path)), file_(std::move(file)), transfer_(std::move(transfer)) {}

H5File H5File::create(const std::string& path, std::int64_t align) {
  silence_h5();
  const H5Object access = access_properties(align);
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id());
  H5Object made(check_h5(file, path + ": creating the file"), H5Fclose);
  return {path, std::move(made), make_properties(H5P_DATASET_XFER)};
}

namespace {

H5Object open_file(const std::string& path, unsigned how, const H5Object& access) {
  const hid_t file = H5Fopen(path.c_str(), how, access.id());
  return {check_h5(file, path + ": opening the file"), H5Fclose};
}

}  // namespace

H5File H5File::open_together(const std::string& path, const Ranks& ranks, const Hints& hints) {
  silence_h5();
  const H5Object access = access_properties(1);
  H5Object transfer = make_properties(H5P_DATASET_XFER);
  use_ranks(access, transfer, ranks, hints);
  return {path, open_file(path, H5F_ACC_RDWR, access), std::move(transfer)};
}

H5File H5File::open_alone(const std::string& path) {
  silence_h5();
  H5Object file = open_file(path, H5F_ACC_RDONLY, access_properties(1));
  return {path, std::move(file), make_properties(H5P_DATASET_XFER)};
}

H5File H5File::open_for_change(const std::string& path) {
  silence_h5();
  H5Object file = open_file(path, H5F_ACC_RDWR, access_properties(1));
  return {path, std::move(file), make_properties(H5P_DATASET_XFER)};
}

bool H5File::has(const std::string& path) const {
  for (std::size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (H5Lexists(file_.id(), part.c_str(), H5P_DEFAULT) <= 0) return false;
    if (slash == std::string::npos) return true;
  }
}

H5Array H5File::find_array(const std::string& path) const {
  H5Array array{
      path,
      H5Object(check_h5(H5Dopen2(file_.id(), path.c_str(), H5P_DEFAULT), path_ + ": opening " + path), H5Dclose),
      DType::f32,
      {}};
  const H5Object type(check_h5(H5Dget_type(array.object.id()), path_ + ": type of " + path), H5Tclose);
  const std::string name = text(array, "dtype").value_or("");
  bool known = false;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2, DType::i64,
                            DType::i32, DType::u16, DType::u8}) {
    if (name != name_of(dtype)) continue;
    array.dtype = dtype;
    known = H5Tequal(type_of(dtype).id(), type.id()) > 0;
  }
  if (!known)
    throw Error(Exit::data,
                path_ + ": " + path + " is of dtype \"" + name +
                    "\" and another HDF5 type than that; the file was not written by Trireme or was changed since");
  const H5Object space(check_h5(H5Dget_space(array.object.id()), path_ + ": space of " + path), H5Sclose);
  const auto rank =
      static_cast<std::size_t>(check_h5(H5Sget_simple_extent_ndims(space.id()), path_ + ": rank of " + path));
  std::vector<hsize_t> sizes(rank);
  check_h5(H5Sget_simple_extent_dims(space.id(), sizes.data(), nullptr), path_ + ": shape of " + path);
  array.shape.assign(sizes.begin(), sizes.end());
  return array;
}

std::vector<std::string> H5File::array_paths() const {
  std::vector<std::string> names;
  check_h5(H5Ovisit2(file_.id(), H5_INDEX_NAME, H5_ITER_NATIVE, append_if_array, &names, H5O_INFO_BASIC),
           path_ + ": listing the arrays");
  std::sort(names.begin(), names.end());
  return names;
}

void H5File::write(const H5Array& array, std::span<const Box> boxes, const std::byte* data) {
  const Selection selection = select(array, boxes);
  const H5Object type = type_of(array.dtype);
  check_h5(H5Dwrite(array.object.id(), type.id(), selection.memory.id(), selection.file.id(), transfer_.id(), data),
           path_ + ": writing " + array.path + " (is the disk full or a quota used up?)");
}

void H5File::read(const H5Array& array, std::span<const Box> boxes, std::byte* data) const {
  const Selection selection = select(array, boxes);
  const H5Object type = type_of(array.dtype);
  check_h5(H5Dread(array.object.id(), type.id(), selection.memory.id(), selection.file.id(), transfer_.id(), data),
           path_ + ": reading " + array.path);
}

void H5File::close() {
  if (!file_.close()) check_h5(-1, path_ + ": closing");
}

}  // namespace trireme
