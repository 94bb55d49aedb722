#include "trireme/io/hf_files.h"

#include <filesystem>
#include <set>

#include "json_file.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr const char* k_single = "model.safetensors";
constexpr const char* k_index = "model.safetensors.index.json";

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

HfFiles::HfFiles(const std::string& path) : path_(path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    add(path);
  } else if (exists(path + "/" + k_index)) {
    open_pieces(path, path + "/" + k_index);
  } else if (exists(path + "/" + k_single)) {
    add(path + "/" + k_single);
  } else {
    throw Error(Exit::data, path + " holds neither " + k_single + " nor " + k_index +
                                "; weights in other formats (pytorch_model.bin) must first be saved as safetensors");
  }
  for (const auto& [name, file] : file_of_) names_.push_back(name);
}

void HfFiles::add(const std::string& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  for (const auto& [name, tensor] : files_.back()->tensors()) {
    const auto [there, is_new] = file_of_.emplace(name, files_.back().get());
    if (!is_new)
      throw Error(Exit::data, "tensor \"" + name + "\" is in " + there->second->path() + " and again in " + path);
  }
}

void HfFiles::open_pieces(const std::string& folder, const std::string& index) {
  const Json root = read_json(index);
  const auto map = root.find("weight_map");
  if (map == root.end() || !map->is_object()) throw Error(Exit::data, index + ": has no object \"weight_map\"");
  std::set<std::string> pieces;
  for (const auto& [name, file] : map->items()) {
    const bool plain = file.is_string() && file.get<std::string>().find('/') == std::string::npos;
    if (!plain) throw Error(Exit::data, index + ": \"" + name + "\" is not mapped to a file of this folder");
    pieces.insert(file.get<std::string>());
  }
  if (pieces.empty()) throw Error(Exit::data, index + ": \"weight_map\" names no file");
  for (const std::string& piece : pieces) add(folder + "/" + piece);
  for (const auto& [name, file] : map->items()) {
    const auto found = file_of_.find(name);
    if (found != file_of_.end() && found->second->path() == folder + "/" + file.get<std::string>()) continue;
    throw Error(Exit::data,
                index + ": says that \"" + name + "\" is in " + file.get<std::string>() + ", which is not so");
  }
}

const SafeTensor& HfFiles::at(const std::string& name) const {
  const auto found = file_of_.find(name);
  return (found == file_of_.end() ? *files_.front() : *found->second).at(name);
}

std::vector<double> HfFiles::values(const std::string& name) const {
  const auto found = file_of_.find(name);
  return (found == file_of_.end() ? *files_.front() : *found->second).values(name);
}

}  // namespace trireme
