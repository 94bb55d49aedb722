#include <algorithm>

#include "h5_calls.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

// Texts are of fixed length: they lie in the object's header, which HDF5 protects with a checksum. Texts of variable
// length lie in a heap without one, and a damaged heap crashes its reader.
H5Object text_type(std::size_t size) {
  H5Object type(check_h5(H5Tcopy(H5T_C_S1), "H5Tcopy"), H5Tclose);
  check_h5(H5Tset_size(type.id(), std::max<std::size_t>(size, 1)), "H5Tset_size");
  check_h5(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "H5Tset_strpad");
  check_h5(H5Tset_cset(type.id(), H5T_CSET_UTF8), "H5Tset_cset");
  return type;
}

H5Object one_value() {
  return {check_h5(H5Screate(H5S_SCALAR), "H5Screate"), H5Sclose};
}

void write_attribute(std::int64_t object, const std::string& name, const H5Object& type, const void* value) {
  const H5Object space = one_value();
  const hid_t id = H5Acreate2(object, name.c_str(), type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT);
  const H5Object attribute(check_h5(id, "creating the attribute " + name), H5Aclose);
  check_h5(H5Awrite(attribute.id(), type.id(), value), "writing the attribute " + name);
}

void write_text(std::int64_t object, const std::string& name, const std::string& value) {
  require(value.find('\0') == std::string::npos, "the attribute " + name + " contains a NUL");
  write_attribute(object, name, text_type(value.size()), value.c_str());
}

// The attribute when it exists, is a single value and of the class.
std::optional<H5Object> open_attribute(std::int64_t object, const std::string& name, H5T_class_t kind) {
  if (check_h5(H5Aexists(object, name.c_str()), "looking for the attribute " + name) == 0) return std::nullopt;
  H5Object attribute(check_h5(H5Aopen(object, name.c_str(), H5P_DEFAULT), "opening the attribute " + name), H5Aclose);
  const H5Object type(check_h5(H5Aget_type(attribute.id()), "type of the attribute " + name), H5Tclose);
  const H5Object space(check_h5(H5Aget_space(attribute.id()), "space of the attribute " + name), H5Sclose);
  if (H5Tget_class(type.id()) != kind || H5Sget_simple_extent_npoints(space.id()) != 1) return std::nullopt;
  if (kind == H5T_STRING && H5Tis_variable_str(type.id()) != 0) return std::nullopt;
  return attribute;
}

std::optional<std::string> read_text(std::int64_t object, const std::string& name) {
  const std::optional<H5Object> attribute = open_attribute(object, name, H5T_STRING);
  if (!attribute) return std::nullopt;
  const H5Object type(check_h5(H5Aget_type(attribute->id()), "type of the attribute " + name), H5Tclose);
  std::string value(H5Tget_size(type.id()), '\0');
  check_h5(H5Aread(attribute->id(), type.id(), value.data()), "reading the attribute " + name);
  value.resize(std::min(value.find('\0'), value.size()));
  return value;
}

herr_t append_name(hid_t, const char* name, const H5A_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->push_back(name);
  return 0;
}

}  // namespace

void H5File::set_text(const H5Array& array, const std::string& name, const std::string& value) {
  write_text(array.object.id(), name, value);
}

void H5File::set_text(const std::string& name, const std::string& value) {
  write_text(file_.id(), name, value);
}

void H5File::set_number(const std::string& name, std::int64_t value) {
  const H5Object type(check_h5(H5Tcopy(H5T_STD_I64LE), "H5Tcopy"), H5Tclose);
  write_attribute(file_.id(), name, type, &value);
}

void H5File::replace_text(const H5Array& array, const std::string& name, const std::string& value) {
  const hid_t id = H5Aopen(array.object.id(), name.c_str(), H5P_DEFAULT);
  const H5Object attribute(check_h5(id, array.path + ": opening the attribute " + name), H5Aclose);
  check_h5(H5Awrite(attribute.id(), text_type(value.size()).id(), value.c_str()),
           array.path + ": writing the attribute " + name);
}

void H5File::replace_number(const std::string& name, std::int64_t value) {
  const H5Object attribute(check_h5(H5Aopen(file_.id(), name.c_str(), H5P_DEFAULT), "opening the attribute " + name),
                           H5Aclose);
  check_h5(H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value), "writing the attribute " + name);
}

std::optional<std::string> H5File::text(const H5Array& array, const std::string& name) const {
  return read_text(array.object.id(), name);
}

std::optional<std::string> H5File::text(const std::string& name) const {
  return read_text(file_.id(), name);
}

std::optional<std::int64_t> H5File::number(const std::string& name) const {
  const std::optional<H5Object> attribute = open_attribute(file_.id(), name, H5T_INTEGER);
  if (!attribute) return std::nullopt;
  std::int64_t value = 0;
  check_h5(H5Aread(attribute->id(), H5T_NATIVE_INT64, &value), "reading the attribute " + name);
  return value;
}

std::vector<std::string> H5File::attribute_names() const {
  std::vector<std::string> names;
  check_h5(H5Aiterate2(file_.id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, append_name, &names),
           path_ + ": listing the attributes");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace trireme
