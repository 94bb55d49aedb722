#pragma once
// Reads safetensors files (Hugging Face). One file at a time, memory-mapped; every length in the header is checked.
// Models in several files are HfFiles.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/shape.h"

namespace trireme {

struct SafeTensor {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;  // valid as long as the file object lives
  std::size_t bytes = 0;
  std::int64_t count() const;
};

// Elements [part) as double, whatever float or integer type they are; nothing for FP8, which has scales elsewhere.
std::optional<std::vector<double>> values_of(const SafeTensor& tensor, Range part);

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  // throws Error(Exit::data) with what was expected and found
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::map<std::string, SafeTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Throws Error(Exit::data) with the nearest present name, or the type when it is one that we cannot read.
  const SafeTensor& at(const std::string& name) const;
  bool has(const std::string& name) const { return tensors_.contains(name); }
  const std::string& path() const { return path_; }
  std::vector<double> values(const std::string& name) const;  // any float or integer type, as double

 private:
  std::string path_;
  const std::byte* map_ = nullptr;
  std::size_t size_ = 0;
  std::map<std::string, SafeTensor> tensors_;
  std::map<std::string, std::string> unread_;  // tensors of types we have no DType for (BOOL, I8, ...): name to type
  std::map<std::string, std::string> metadata_;
};

}  // namespace trireme
