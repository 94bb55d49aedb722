#pragma once
// What saving, loading and looking at checkpoints share: the names in the file and beside it, the structure that one
// process makes, and the meetings of collective writing.

#include <string>
#include <vector>

#include "catalogue.h"
#include "data_files.h"
#include "memory_file.h"
#include "pieces.h"
#include "trireme/io/checkpoint.h"

namespace trireme {

inline constexpr const char* k_filetype_name = "filetype";
inline constexpr const char* k_filetype = "trireme checkpoint";
inline constexpr const char* k_version_name = "version";
inline constexpr const char* k_complete_name = "complete";  // 1, written last: without it the writer did not finish
inline constexpr const char* k_checksum_name = "checksum";
inline constexpr const char* k_folder_name = "files";  // of a master file: the folder of its files, beside it

inline constexpr const char* k_n_files_name = "n_files";

inline constexpr std::int64_t k_round_bytes = 256 << 20;

// A file as HDF5 has made it, without the data of the arrays.
struct Draft {
  MemoryFile memory;
  std::vector<Patch> written;  // what of it is on the disk
};

// Where a checkpoint is written before it has its name. With several files the data lie in a folder.
struct Names {
  std::string path, part;           // of the file that is opened: "a/step_5.h5", "a/step_5.h5.part"
  std::string folder, folder_part;  // "step_5.files" (a name that is free), "a/step_5.files.part"; empty: one file
  std::vector<std::string> data;    // files that hold the arrays, under their unfinished names
  std::vector<Draft> drafts;        // of these
};
Names names_of(const std::string& path, std::int64_t files);

enum class Room : std::uint8_t { reserved, not_reserved };
// One process, in this order. What follows lay_out() writes where space has been set aside: nothing grows any more.
Catalogue lay_out(Names& names, const std::vector<Stored>& arrays, const Attributes& attributes,
                  const SaveOptions& options, Room room);
void finish(Names& names, const Catalogue& catalogue, const std::vector<Stored>& arrays,
            const Attributes& attributes);  // the checksums are those of the catalogue
void publish(const Names& names);           // sync, rename, sync the folder
void discard(const Names& names) noexcept;  // what is unfinished

// --- collective writing: this rank's rounds of an array. All ranks meet equally often; a rank that has nothing left
// takes part with an empty round.
struct ArrayPlan {
  std::vector<Round> rounds;
  std::int64_t n_meetings = 0;
  Round round(std::int64_t i) const;
};
ArrayPlan plan_array(const Stored& array, DType file_dtype, std::int64_t round_bytes);
void agree_on_rounds(std::vector<ArrayPlan>& plans, const Ranks& ranks);

ArrayInfo info_of(const CatalogueEntry& entry);
Attributes texts_of(const H5File& file);  // of the root: what was saved, and "program"

// Opens what claims to be a checkpoint, or throws Error(Exit::data) with what it is instead.
H5File open_checkpoint(const std::string& path);

}  // namespace trireme
