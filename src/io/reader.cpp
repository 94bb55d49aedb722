#include "trireme/io/reader.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "checkpoint_file.h"
#include "checksum.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/io/element.h"

namespace trireme {

namespace {

Box whole(const Shape& shape) {
  Box box{shape, shape};
  std::fill(box.offset.dim.begin(), box.offset.dim.end(), 0);
  return box;
}

std::vector<ArrayInfo> infos_of(const Catalogue& catalogue) {
  std::vector<ArrayInfo> infos;
  for (const CatalogueEntry& entry : catalogue.entries) infos.push_back(info_of(entry));
  return infos;
}

double number(DType dtype, const std::byte* data, std::int64_t i) {
  const auto get = [&]<class T>(T) {
    T x;
    std::memcpy(&x, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return static_cast<double>(x);
  };
  switch (dtype) {
    case DType::i64:
      return get(std::int64_t{});
    case DType::i32:
      return get(std::int32_t{});
    case DType::u16:
      return get(std::uint16_t{});
    default:
      return get(std::uint8_t{});
  }
}

}  // namespace

struct CheckpointReader::State {
  std::string path;
  Attributes attributes;
  Catalogue catalogue;
  std::vector<ArrayInfo> infos;
  std::optional<DataFiles> files;
  std::optional<H5File> file;  // only where HDF5 must be asked

  void settle() {
    infos = infos_of(catalogue);
    files.emplace(catalogue.files, DataFiles::Mode::reading);
  }
};

CheckpointReader::CheckpointReader(const std::string& path) : state_(std::make_unique<State>()) {
  const H5File file = open_checkpoint(path);
  state_->path = path;
  state_->attributes = texts_of(file);
  state_->catalogue = read_catalogue(path, file, {});
  state_->settle();
}

CheckpointReader::CheckpointReader(const std::string& path, Communicator& control) : state_(std::make_unique<State>()) {
  const Ranks ranks(control);
  std::string packed, texts;
  ranks.first_alone([&] {
    const H5File file = open_checkpoint(path);
    texts = pack(texts_of(file));
    packed = read_catalogue(path, file, {}).pack();
  });
  state_->path = path;
  state_->attributes = unpack_attributes(ranks.broadcast(texts));
  state_->catalogue = Catalogue::unpack(ranks.broadcast(packed));
  state_->settle();
}

CheckpointReader::~CheckpointReader() = default;

const Attributes& CheckpointReader::attributes() const {
  return state_->attributes;
}
const std::vector<ArrayInfo>& CheckpointReader::arrays() const {
  return state_->infos;
}

const ArrayInfo* CheckpointReader::find(const std::string& array) const {
  for (const ArrayInfo& info : state_->infos) {
    if (info.path == array) return &info;
  }
  return nullptr;
}

void CheckpointReader::read(const std::string& array, const Range& part, std::byte* out) {
  const CatalogueEntry* entry = state_->catalogue.find(array);
  if (entry == nullptr) throw Error(Exit::data, state_->path + " has no array " + array);
  const Box box = whole(entry->place.shape);
  if (entry->in_place) return state_->files->read(lines_of(entry->place, box, part).segments, out);
  if (!state_->file) state_->file = H5File::open_alone(state_->path);
  const H5Array source = state_->file->find_array(array);
  for (const Box& piece : boxes_of(box, part.first, part.last)) {
    state_->file->read(source, {&piece, 1}, out);
    out += piece.count() * static_cast<std::int64_t>(size_of(source.dtype));
  }
}

std::vector<double> CheckpointReader::read_values(const std::string& array, const Range& part) {
  const CatalogueEntry* entry = state_->catalogue.find(array);
  if (entry == nullptr) throw Error(Exit::data, state_->path + " has no array " + array);
  const DType dtype = entry->place.dtype;
  std::vector<std::byte> bytes(static_cast<std::size_t>(part.count()) * size_of(dtype));
  read(array, part, bytes.data());
  std::vector<double> values(static_cast<std::size_t>(part.count()));
  if (can_convert(DType::f64, dtype)) {
    convert(DType::f64, reinterpret_cast<std::byte*>(values.data()), dtype, bytes.data(), part.count());
    return values;
  }
  for (std::int64_t i = 0; i < part.count(); ++i) values[static_cast<std::size_t>(i)] = number(dtype, bytes.data(), i);
  return values;
}

std::int64_t count_of(const ArrayInfo& array) {
  std::int64_t count = 1;
  for (const std::int64_t size : array.shape) count *= size;
  return count;
}

std::uint64_t checksum_share(DType dtype, const std::byte* data, std::int64_t first, std::int64_t count) {
  return checksum(data, size_of(dtype), first, count);
}

std::uint64_t checksum_of_zeros(DType dtype, std::int64_t first, std::int64_t count) {
  constexpr std::int64_t k_batch = 4096;
  const std::vector<std::byte> zeros(k_batch * size_of(dtype));
  std::uint64_t sum = 0;
  for (std::int64_t at = 0; at < count; at += k_batch)
    sum += checksum(zeros.data(), size_of(dtype), first + at, std::min(k_batch, count - at));
  return sum;
}

std::string checksum_text(std::uint64_t sum) {
  return format("%016llx", static_cast<unsigned long long>(sum));
}

}  // namespace trireme
