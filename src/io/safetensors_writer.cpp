#include "trireme/io/safetensors_writer.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "mapped.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

using Ordered = nlohmann::ordered_json;

const char* type_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "F64";
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    default:
      break;
  }
  require(false, std::string("no safetensors type for weights in ") + name_of(dtype));
  return "";
}

std::int64_t bytes_of(const NewTensor& tensor) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(tensor.dtype));
  for (const std::int64_t size : tensor.shape) bytes *= size;
  return bytes;
}

// Consecutive tensors up to piece_bytes; a larger one has a piece to itself.
std::vector<std::vector<NewTensor>> pieces_of(const std::vector<NewTensor>& tensors, std::int64_t piece_bytes) {
  std::vector<std::vector<NewTensor>> pieces(1);
  std::int64_t bytes = 0;
  for (const NewTensor& tensor : tensors) {
    if (!pieces.back().empty() && bytes + bytes_of(tensor) > piece_bytes) {
      pieces.emplace_back();
      bytes = 0;
    }
    bytes += bytes_of(tensor);
    pieces.back().push_back(tensor);
  }
  return pieces;
}

// The header, padded with blanks so that the data begin at a multiple of 8.
std::string header_of(const std::vector<NewTensor>& tensors) {
  Ordered header = {{"__metadata__", {{"format", "pt"}}}};
  std::int64_t begin = 0;
  for (const NewTensor& tensor : tensors) {
    const std::int64_t end = begin + bytes_of(tensor);
    header[tensor.name] = {{"dtype", type_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

struct SafetensorsWriter::State {
  std::string folder;
  std::vector<MappedFile> files;
  std::map<std::string, Tensor> tensors;
  Ordered index;
};

SafetensorsWriter::SafetensorsWriter(const std::string& folder, const std::vector<NewTensor>& tensors,
                                     std::int64_t piece_bytes)
    : state_(std::make_unique<State>()) {
  state_->folder = folder;
  const std::vector<std::vector<NewTensor>> pieces = pieces_of(tensors, piece_bytes);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string name =
        pieces.size() == 1 ? "model.safetensors" : format("model-%05zu-of-%05zu.safetensors", i + 1, pieces.size());
    const std::string header = header_of(pieces[i]);
    std::int64_t bytes = 0;
    for (const NewTensor& tensor : pieces[i]) bytes += bytes_of(tensor);
    state_->files.emplace_back(folder + "/" + name, 8 + header.size() + static_cast<std::size_t>(bytes));
    std::byte* data = state_->files.back().data();
    const std::uint64_t length = header.size();
    std::memcpy(data, &length, 8);
    std::memcpy(data + 8, header.data(), header.size());
    data += 8 + header.size();
    for (const NewTensor& tensor : pieces[i]) {
      const std::vector<std::int64_t>& s = tensor.shape;
      state_->tensors.emplace(tensor.name, Tensor(data, tensor.dtype, s.size() == 1 ? Shape{s[0]} : Shape{s[0], s[1]}));
      state_->index["weight_map"][tensor.name] = name;
      data += bytes_of(tensor);
    }
    total += bytes;
  }
  state_->index["metadata"]["total_size"] = total;
}

SafetensorsWriter::~SafetensorsWriter() = default;

int SafetensorsWriter::n_files() const {
  return static_cast<int>(state_->files.size());
}

Tensor SafetensorsWriter::at(const std::string& name) const {
  const auto found = state_->tensors.find(name);
  require(found != state_->tensors.end(), "no tensor " + name + " is being written");
  return found->second;
}

void SafetensorsWriter::finish() {
  for (const MappedFile& file : state_->files) file.sync();
  if (state_->files.size() == 1) return;
  const std::string path = state_->folder + "/model.safetensors.index.json";
  std::ofstream out(path);
  out << state_->index.dump(2) << "\n";
  out.close();
  if (!out) throw Error(Exit::data, path + " cannot be written: check the folder and its free space");
}

}  // namespace trireme
