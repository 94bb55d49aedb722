#include <filesystem>
#include <fstream>

#include "checkpoint_file.h"
#include "h5.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/io/checkpoint.h"

namespace trireme {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Exit::data, path + ": " + why);
}

// Plain reasons before HDF5 has its say.
void require_h5_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) refuse(path, "does not exist");
  if (fs::is_directory(status)) refuse(path, "is a folder, expected a checkpoint file");
  std::ifstream file(path, std::ios::binary);
  std::string head(8, ' ');
  if (!file) refuse(path, "cannot be opened for reading; check its permissions");
  file.read(head.data(), 8);
  if (file.gcount() < 8 || head != "\x89HDF\r\n\x1a\n") {
    refuse(path, "is not an HDF5 file (" + bytes_text(static_cast<double>(fs::file_size(path, error))) +
                     "), expected a Trireme checkpoint");
  }
}

H5File open_checkpoint(const std::string& path) {
  require_h5_file(path);
  std::optional<H5File> file;
  try {
    file = H5File::open_alone(path);
  } catch (const Error& error) {
    refuse(path, std::string("is cut short or damaged: ") + error.what());
  }
  const std::string filetype = file->text(k_filetype_name).value_or("");
  if (filetype != k_filetype)
    refuse(path, "is an HDF5 file but no Trireme checkpoint (its attribute filetype is \"" + filetype + "\")");
  const std::int64_t version = file->number(k_version_name).value_or(0);
  if (version < 1 || version > k_checkpoint_version) {
    refuse(path, "has the checkpoint version " + std::to_string(version) + ", this program reads up to " +
                     std::to_string(k_checkpoint_version) + "; use a newer program");
  }
  if (file->number(k_complete_name).value_or(0) != 1) refuse(path, "is incomplete: its writer was interrupted");
  return std::move(*file);
}

}  // namespace

Attributes read_attributes(const std::string& path) {
  const H5File file = open_checkpoint(path);
  Attributes attributes;
  for (const std::string& name : file.attribute_names()) {
    if (const auto text = file.text(name); text && name != k_filetype_name) attributes[name] = *text;
  }
  return attributes;
}

std::vector<ArrayInfo> list_arrays(const std::string& path) {
  const H5File file = open_checkpoint(path);
  std::vector<ArrayInfo> infos;
  for (const std::string& name : file.array_paths()) {
    const H5Array array = file.find_array(name);
    infos.push_back({name, array.dtype, array.shape, file.text(array, "hf_names").value_or(""),
                     file.text(array, k_checksum_name).value_or("")});
  }
  return infos;
}

}  // namespace trireme
