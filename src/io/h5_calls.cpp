#include "h5_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trireme/base/check.h"

namespace trireme {

namespace {

herr_t append_description(unsigned, const H5E_error2_t* entry, void* texts) {
  if (entry->desc != nullptr && *entry->desc != 0)
    static_cast<std::vector<std::string>*>(texts)->push_back(entry->desc);
  return 0;
}

// HDF5's reasons from the cause outwards; of the many the first two and the last, on one line.
std::string error_stack() {
  std::vector<std::string> texts;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, append_description, &texts);
  if (texts.empty()) return "HDF5 gives no reason";
  std::string all = texts.front();
  if (texts.size() > 2) all += "; " + texts[1];
  if (texts.size() > 1) all += "; " + texts.back();
  std::replace(all.begin(), all.end(), '\n', ' ');
  return all;
}

// IEEE style: sign, exponent, fraction from the highest bit down.
H5Object small_float(std::size_t exponent_bits, std::size_t fraction_bits, std::size_t bias) {
  H5Object type(check_h5(H5Tcopy(H5T_IEEE_F32LE), "H5Tcopy"), H5Tclose);
  const std::size_t sign = exponent_bits + fraction_bits;
  check_h5(H5Tset_fields(type.id(), sign, fraction_bits, exponent_bits, 0, fraction_bits), "H5Tset_fields");
  check_h5(H5Tset_size(type.id(), 2), "H5Tset_size");
  check_h5(H5Tset_ebias(type.id(), bias), "H5Tset_ebias");
  return type;
}

H5Object copy_of(hid_t type) {
  return {check_h5(H5Tcopy(type), "H5Tcopy"), H5Tclose};
}

}  // namespace

H5Object::~H5Object() {
  close();
}

H5Object::H5Object(H5Object&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}

H5Object& H5Object::operator=(H5Object&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(close_, other.close_);
  return *this;
}

bool H5Object::close() {
  const std::int64_t id = std::exchange(id_, -1);
  return id < 0 || close_(id) >= 0;
}

std::int64_t check_h5(std::int64_t result, const std::string& what) {
  if (result >= 0) return result;
  throw Error(Exit::data, what + " failed: " + error_stack());
}

void silence_h5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

H5Object make_properties(std::int64_t kind) {
  return {check_h5(H5Pcreate(kind), "H5Pcreate"), H5Pclose};
}

Sizes sizes_of(const Shape& shape) {
  Sizes sizes{};
  for (int i = 0; i < shape.rank; ++i) sizes[static_cast<std::size_t>(i)] = static_cast<hsize_t>(shape[i]);
  return sizes;
}

H5Object type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return copy_of(H5T_IEEE_F64LE);
    case DType::f32:
      return copy_of(H5T_IEEE_F32LE);
    case DType::bf16:
      return small_float(8, 7, 127);
    case DType::f16:
      return small_float(5, 10, 15);
    case DType::e4m3:
    case DType::e5m2:
    case DType::u8:
      return copy_of(H5T_STD_U8LE);
    case DType::i64:
      return copy_of(H5T_STD_I64LE);
    case DType::i32:
      return copy_of(H5T_STD_I32LE);
    case DType::u16:
      return copy_of(H5T_STD_U16LE);
  }
  require(false, "an element type without an HDF5 type");
  return {};
}

}  // namespace trireme
