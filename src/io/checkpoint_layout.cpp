// The files of a checkpoint before and after their data: made, filled in, named. All by one process.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "checkpoint_file.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/base/version.h"

namespace trireme {

namespace {

namespace fs = std::filesystem;

constexpr const char* k_no_checksum = "0000000000000000";

Range rows_of(const Stored& array, const Names& names, std::size_t file) {
  return cut(array.global[0], std::ssize(names.data), static_cast<std::int64_t>(file));
}

// Blocks of arrays that are cut over files may have fewer rows.
Shape chunk_of(const Stored& array, const Range& rows) {
  Shape chunk = array.chunk;
  if (chunk.rank > 0) chunk[0] = std::min(chunk[0], rows.count());
  return chunk;
}

// At most what the file will have.
std::int64_t most_bytes(const std::vector<Stored>& arrays, const Names& names, std::size_t file,
                        const SaveOptions& options) {
  std::int64_t bytes = 16 << 20;
  for (const Stored& array : arrays) {
    const std::int64_t row = array.global.count() / std::max<std::int64_t>(1, array.global[0]);
    bytes += rows_of(array, names, file).count() * row * static_cast<std::int64_t>(size_of(array.dtype)) +
             options.align_bytes;
  }
  return bytes;
}

void write_root(H5File& file, const Attributes& attributes, std::int64_t complete) {
  file.set_text(k_filetype_name, k_filetype);
  file.set_number(k_version_name, k_checkpoint_version);
  file.set_text("program", "trireme " + version());
  for (const auto& [name, value] : attributes) file.set_text(name, value);
  file.set_number(k_complete_name, complete);
}

void describe(H5File& file, const H5Array& made, const Stored& array, const std::string& checksum) {
  if (!array.hf_names.empty()) file.set_text(made, "hf_names", array.hf_names);
  file.set_text(made, k_checksum_name, checksum);
}

// Brings what has changed in a draft to its file.
void write_draft(Draft& draft, const Descriptor& file) {
  std::vector<Patch> now = draft.memory.contents();
  write_patches(file, changes(draft.written, now));
  draft.written = std::move(now);
}

// Makes the file with room for all that will be in it: a full disk is met before any data are written.
void create_on_disk(const std::string& path, Draft& draft, const SaveOptions& options, Room room) {
  if (!options.hints.empty()) {
    ::unlink(path.c_str());
    create_with_hints(path, options.hints);
  }
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, "cannot be written");
  file.resize(draft.memory.size());
  if (room == Room::reserved) file.reserve(draft.memory.size(), 0);
  write_draft(draft, file);
}

// The draft of one file with its share of every array.
Draft draft_file(const Names& names, std::size_t index, const std::vector<Stored>& arrays, const Attributes& attributes,
                 const SaveOptions& options, Catalogue& catalogue) {
  Draft draft;
  const std::string memory = draft.memory.appear();
  draft.memory.try_size(most_bytes(arrays, names, index, options), names.data[index]);
  H5File file = H5File::create(memory, options.align_bytes);
  draft.memory.vanish();
  write_root(file, attributes, 0);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const Range rows = rows_of(arrays[i], names, index);
    if (rows.count() == 0 && names.data.size() > 1) continue;
    Shape shape = arrays[i].global;
    shape[0] = rows.count();
    const Shape chunk = chunk_of(arrays[i], rows);
    const H5Array made = file.create_array(arrays[i].path, arrays[i].dtype, shape, chunk);
    describe(file, made, arrays[i], k_no_checksum);
    const std::optional<std::int64_t> address = file.address(made);
    require(address.has_value(), arrays[i].path + ": HDF5 has not fixed the place of the array");
    catalogue.entries[i].place.slabs.push_back(
        {rows.first, rows.count(), static_cast<std::int64_t>(index), *address, chunk});
  }
  file.close();
  return draft;
}

std::vector<VirtualPart> parts_of(const Names& names, const ArrayPlace& place) {
  std::vector<VirtualPart> parts;
  for (const Slab& slab : place.slabs) {
    const fs::path file = names.data[static_cast<std::size_t>(slab.file)];
    parts.push_back({names.folder + "/" + file.filename().string(), {slab.first, slab.first + slab.count}});
  }
  return parts;
}

void make_master(const Names& names, const Catalogue& catalogue, const std::vector<Stored>& arrays,
                 const Attributes& attributes) {
  Draft draft;
  H5File file = H5File::create(draft.memory.appear(), 1);
  draft.memory.vanish();
  write_root(file, attributes, 1);
  file.set_text(k_folder_name, names.folder);
  file.set_text(k_n_files_name, std::to_string(names.data.size()));
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const CatalogueEntry& entry = catalogue.entries[i];
    const H5Array made =
        file.create_virtual(arrays[i].path, arrays[i].dtype, arrays[i].global, parts_of(names, entry.place));
    describe(file, made, arrays[i], entry.checksum);
  }
  file.close();
  create_on_disk(names.part, draft, {}, Room::reserved);
}

void sync_folder(const fs::path& folder) {
  Descriptor(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY, "cannot be synced").sync();
}

void rename_to(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_with_errno(from, "could not be renamed to " + to);
}

}  // namespace

Names names_of(const std::string& path, std::int64_t files) {
  Names names{path, path + ".part", "", "", {}, {}};
  if (files <= 1) {
    names.data.push_back(names.part);
    return names;
  }
  const fs::path stem = fs::path(path).parent_path() / fs::path(path).stem();
  std::string folder = stem.string() + ".files";
  for (int i = 1; fs::exists(folder); ++i) folder = stem.string() + ".files" + std::to_string(i);
  names.folder = fs::path(folder).filename().string();
  names.folder_part = folder + ".part";
  for (std::int64_t i = 0; i < files; ++i) {
    names.data.push_back(names.folder_part + "/" + format("%04lld.h5", static_cast<long long>(i)));
  }
  return names;
}

Catalogue lay_out(Names& names, const std::vector<Stored>& arrays, const Attributes& attributes,
                  const SaveOptions& options, Room room) {
  Catalogue catalogue{names.data, {}};
  for (const Stored& array : arrays) {
    catalogue.entries.push_back({array.path, k_no_checksum, array.hf_names, {array.dtype, array.global, {}}, true});
  }
  if (!names.folder_part.empty()) {
    std::error_code error;
    fs::remove_all(names.folder_part, error);
    if (!fs::create_directory(names.folder_part, error)) {
      errno = error.value() != 0 ? error.value() : EEXIST;
      fail_with_errno(names.folder_part, "the folder cannot be made");
    }
  }
  for (std::size_t i = 0; i < names.data.size(); ++i) {
    const Attributes& texts = names.folder.empty() ? attributes : Attributes{};
    names.drafts.push_back(draft_file(names, i, arrays, texts, options, catalogue));
    create_on_disk(names.data[i], names.drafts.back(), options, room);
  }
  return catalogue;
}

void finish(Names& names, const Catalogue& catalogue, const std::vector<Stored>& arrays, const Attributes& attributes) {
  for (std::size_t i = 0; i < names.data.size(); ++i) {
    Draft& draft = names.drafts[i];
    H5File file = H5File::open_for_change(draft.memory.appear());
    draft.memory.vanish();
    if (names.folder.empty()) {
      for (const CatalogueEntry& entry : catalogue.entries)
        file.replace_text(file.find_array(entry.path), k_checksum_name, entry.checksum);
    }
    file.replace_number(k_complete_name, 1);
    file.close();
    write_draft(draft, Descriptor(names.data[i], O_WRONLY, "cannot be finished"));
  }
  if (!names.folder.empty()) make_master(names, catalogue, arrays, attributes);
}

// The order that survives a crash at any point: contents, name, folder.
void publish(const Names& names) {
  const fs::path parent = fs::path(names.path).parent_path();
  for (const std::string& file : names.data) Descriptor(file, O_RDWR, "cannot be synced").sync();
  if (!names.folder.empty()) {
    sync_folder(names.folder_part);
    rename_to(names.folder_part, (parent / names.folder).string());
    Descriptor(names.part, O_RDWR, "cannot be synced").sync();
    sync_folder(parent);
  }
  rename_to(names.part, names.path);
  sync_folder(parent);
}

void discard(const Names& names) noexcept {
  ::unlink(names.part.c_str());
  std::error_code error;
  if (!names.folder_part.empty()) fs::remove_all(names.folder_part, error);
}

}  // namespace trireme
