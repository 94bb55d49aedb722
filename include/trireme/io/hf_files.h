#pragma once
// The tensors of a Hugging Face model by name: one .safetensors file, or a folder with model.safetensors or with the
// pieces that model.safetensors.index.json names. It reads no config.json and knows no model.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/io/safetensors.h"

namespace trireme {

class HfFiles {
 public:
  // Throws Error(Exit::data): nothing there, an index that names absent files or tensors, a damaged file.
  explicit HfFiles(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<std::string>& names() const { return names_; }  // sorted
  bool has(const std::string& name) const { return file_of_.contains(name); }
  const SafeTensor& at(const std::string& name) const;        // throws Error(Exit::data) with the nearest name
  std::vector<double> values(const std::string& name) const;  // any float or integer type, as double
  const std::map<std::string, std::string>& metadata() const { return files_.front()->metadata(); }

 private:
  void open_pieces(const std::string& folder, const std::string& index);
  void add(const std::string& path);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*> file_of_;
  std::vector<std::string> names_;
};

}  // namespace trireme
