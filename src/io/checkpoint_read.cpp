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

H5File open_file(const std::string& path) {
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

Attributes texts_of(const H5File& file) {
  Attributes attributes;
  for (const std::string& name : file.attribute_names()) {
    if (const auto text = file.text(name); text && name != k_filetype_name) attributes[name] = *text;
  }
  return attributes;
}

ArrayInfo info_of(const CatalogueEntry& entry) {
  const Shape& shape = entry.place.shape;
  ArrayInfo info{entry.path, entry.place.dtype, {}, entry.hf_names, entry.checksum, {}};
  info.shape.assign(shape.dim.begin(), shape.dim.begin() + shape.rank);
  const Shape& chunk = entry.place.slabs.front().chunk;
  info.chunk.assign(chunk.dim.begin(), chunk.dim.begin() + chunk.rank);
  return info;
}

// The files behind a master file count as much as itself.
H5File open_checkpoint(const std::string& path) {
  H5File file = open_file(path);
  const std::string folder = file.text(k_folder_name).value_or("");
  if (folder.empty()) return file;
  const fs::path beside = fs::path(path).parent_path() / folder;
  std::error_code error;
  std::int64_t found = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(beside, error)) {
    open_file(entry.path().string());
    ++found;
  }
  const std::string expected = file.text(k_n_files_name).value_or("");
  if (std::to_string(found) != expected) {
    refuse(path, "needs the " + expected + " files of " + beside.string() + ", found " + std::to_string(found) +
                     ": move the folder along with it");
  }
  return file;
}

// Names and values in turn, each with a NUL behind it: attributes hold none.
std::string pack(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) text += name + '\0' + value + '\0';
  return text;
}

Attributes unpack_attributes(const std::string& text) {
  Attributes attributes;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t name = text.find('\0', at), value = text.find('\0', name + 1);
    attributes[text.substr(at, name - at)] = text.substr(name + 1, value - name - 1);
    at = value + 1;
  }
  return attributes;
}

Attributes read_attributes(const std::string& path) {
  return texts_of(open_checkpoint(path));
}

std::vector<ArrayInfo> list_arrays(const std::string& path) {
  const H5File file = open_checkpoint(path);
  std::vector<ArrayInfo> infos;
  for (const CatalogueEntry& entry : read_catalogue(path, file, {}).entries) infos.push_back(info_of(entry));
  return infos;
}

}  // namespace trireme
