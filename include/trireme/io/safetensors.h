#pragma once
// Reads safetensors files (Hugging Face). One file at a time, memory-mapped; every length in the header is checked.

#include <map>
#include <memory>
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

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  // throws Error(Exit::data) with what was expected and found
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::map<std::string, SafeTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const SafeTensor& at(const std::string& name) const;        // throws Error naming the nearest present name
  std::vector<double> values(const std::string& name) const;  // any float or integer type, as double

 private:
  const std::byte* map_ = nullptr;
  std::size_t size_ = 0;
  std::map<std::string, SafeTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace trireme
