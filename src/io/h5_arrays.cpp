// Making arrays, and where HDF5 has put them.

#include <algorithm>

#include "h5_calls.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

H5Object space_of(const Shape& shape, const std::string& path) {
  const Sizes sizes = sizes_of(shape);
  return {check_h5(H5Screate_simple(shape.rank, sizes.data(), nullptr), path + ": H5Screate_simple"), H5Sclose};
}

H5Object layout_of(const Shape& chunk) {
  H5Object creation = make_properties(H5P_DATASET_CREATE);
  check_h5(H5Pset_layout(creation.id(), chunk.rank > 0 ? H5D_CHUNKED : H5D_CONTIGUOUS), "H5Pset_layout");
  if (chunk.rank > 0) check_h5(H5Pset_chunk(creation.id(), chunk.rank, sizes_of(chunk).data()), "H5Pset_chunk");
  check_h5(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  check_h5(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  return creation;
}

H5Array make_array(std::int64_t file, const std::string& path, DType dtype, const Shape& shape,
                   const H5Object& creation) {
  const H5Object links = make_properties(H5P_LINK_CREATE);
  check_h5(H5Pset_create_intermediate_group(links.id(), 1), "H5Pset_create_intermediate_group");
  const H5Object space = space_of(shape, path), type = type_of(dtype);
  const hid_t id = H5Dcreate2(file, path.c_str(), type.id(), space.id(), links.id(), creation.id(), H5P_DEFAULT);
  H5Array array{path, H5Object(check_h5(id, "creating " + path), H5Dclose), dtype, {}};
  array.shape.assign(shape.dim.begin(), shape.dim.begin() + shape.rank);
  return array;
}

H5Object creation_of(const H5Array& array) {
  return {check_h5(H5Dget_create_plist(array.object.id()), array.path + ": H5Dget_create_plist"), H5Pclose};
}

// Blocks that follow each other in order need no index: HDF5 says so of arrays that were allocated at once.
bool blocks_in_order(const H5Array& array) {
  H5D_chunk_index_t index{};
  check_h5(H5Dget_chunk_index_type(array.object.id(), &index), array.path + ": H5Dget_chunk_index_type");
  return index == H5D_CHUNK_IDX_NONE || index == H5D_CHUNK_IDX_SINGLE;
}

}  // namespace

H5Array H5File::create_array(const std::string& path, DType dtype, const Shape& shape, const Shape& chunk) {
  H5Array array = make_array(file_.id(), path, dtype, shape, layout_of(chunk));
  set_text(array, "dtype", name_of(dtype));
  return array;
}

H5Array H5File::create_virtual(const std::string& path, DType dtype, const Shape& shape,
                               std::span<const VirtualPart> parts) {
  const H5Object creation = make_properties(H5P_DATASET_CREATE), space = space_of(shape, path);
  for (const VirtualPart& part : parts) {
    Shape first = shape, size = shape;
    std::fill(first.dim.begin(), first.dim.end(), 0);
    first[0] = part.rows.first;
    size[0] = part.rows.count();
    const H5Object source = space_of(size, path);
    check_h5(H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, sizes_of(first).data(), nullptr, sizes_of(size).data(),
                                 nullptr),
             path + ": H5Sselect_hyperslab");
    check_h5(H5Pset_virtual(creation.id(), space.id(), part.file.c_str(), path.c_str(), source.id()),
             path + ": H5Pset_virtual");
  }
  H5Array array = make_array(file_.id(), path, dtype, shape, creation);
  set_text(array, "dtype", name_of(dtype));
  return array;
}

std::optional<std::int64_t> H5File::address(const H5Array& array) const {
  for (const std::int64_t size : array.shape) {
    if (size == 0) return 0;
  }
  const H5Object creation = creation_of(array);
  if (H5Pget_nfilters(creation.id()) != 0 || H5Pget_external_count(creation.id()) != 0) return std::nullopt;
  const H5D_layout_t layout = H5Pget_layout(creation.id());
  haddr_t address = HADDR_UNDEF;
  if (layout == H5D_CONTIGUOUS) address = H5Dget_offset(array.object.id());
  if (layout == H5D_CHUNKED && blocks_in_order(array)) {
    const Sizes first{};
    unsigned filters = 0;
    hsize_t bytes = 0;
    check_h5(H5Dget_chunk_info_by_coord(array.object.id(), first.data(), &filters, &address, &bytes),
             array.path + ": H5Dget_chunk_info_by_coord");
  }
  if (address == HADDR_UNDEF) return std::nullopt;
  return static_cast<std::int64_t>(address);
}

Shape H5File::chunk(const H5Array& array) const {
  const H5Object creation = creation_of(array);
  Shape chunk;
  if (H5Pget_layout(creation.id()) != H5D_CHUNKED || array.shape.size() > chunk.dim.size()) return chunk;
  Sizes sizes{};
  chunk.rank = static_cast<int>(
      check_h5(H5Pget_chunk(creation.id(), static_cast<int>(sizes.size()), sizes.data()), array.path + ": its blocks"));
  for (int i = 0; i < chunk.rank; ++i) chunk[i] = static_cast<std::int64_t>(sizes[static_cast<std::size_t>(i)]);
  return chunk;
}

std::vector<VirtualPart> H5File::virtual_parts(const H5Array& array) const {
  const H5Object creation = creation_of(array);
  std::vector<VirtualPart> parts;
  if (H5Pget_layout(creation.id()) != H5D_VIRTUAL) return parts;
  std::size_t n = 0;
  check_h5(H5Pget_virtual_count(creation.id(), &n), array.path + ": H5Pget_virtual_count");
  std::int64_t next = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::string name(static_cast<std::size_t>(check_h5(H5Pget_virtual_filename(creation.id(), i, nullptr, 0),
                                                       array.path + ": H5Pget_virtual_filename")),
                     ' ');
    check_h5(H5Pget_virtual_filename(creation.id(), i, name.data(), name.size() + 1), "H5Pget_virtual_filename");
    const H5Object space(check_h5(H5Pget_virtual_vspace(creation.id(), i), array.path + ": H5Pget_virtual_vspace"),
                         H5Sclose);
    std::array<hsize_t, H5S_MAX_RANK> first{}, last{};
    check_h5(H5Sget_select_bounds(space.id(), first.data(), last.data()), array.path + ": H5Sget_select_bounds");
    parts.push_back({name, {static_cast<std::int64_t>(first[0]), static_cast<std::int64_t>(last[0]) + 1}});
    for (std::size_t d = 1; d < array.shape.size(); ++d) {
      if (first[d] != 0 || static_cast<std::int64_t>(last[d]) + 1 != array.shape[d]) return {};
    }
    if (parts.back().rows.first != next) return {};
    next = parts.back().rows.last;
  }
  if (array.shape.empty() || next != array.shape[0]) return {};
  return parts;
}

}  // namespace trireme
