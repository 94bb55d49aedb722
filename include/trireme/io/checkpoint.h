#pragma once
// Checkpoints: one parallel HDF5 file of global arrays in logical shapes, written to a temporary name, synced, renamed.
// It knows arrays and attributes, not training: the trainer lists what there is (Stored).

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/device/backend.h"
#include "trireme/io/stored.h"

namespace trireme {

inline constexpr int k_checkpoint_version = 1;

// Scalars and texts of a checkpoint, attributes of the root group. Numbers are printed so that they read back exactly.
using Attributes = std::map<std::string, std::string>;

// Collective over `control` (an MPI communicator). Writes PATH.part, then renames to PATH. Throws Error(Exit::data) on
// every rank alike when any rank fails; an earlier PATH is untouched until the rename.
void save_checkpoint(const std::string& path, const std::vector<Stored>& arrays, const Attributes& attributes,
                     Communicator& control, Backend& backend);

// The same with at most round_bytes of a rank's array on the host at a time (256 MiB above). For tests of the cutting.
void save_checkpoint(const std::string& path, const std::vector<Stored>& arrays, const Attributes& attributes,
                     Communicator& control, Backend& backend, std::int64_t round_bytes);

// Reads each piece from the array of the same path. Throws Error(Exit::data) naming arrays that are missing, have
// another shape, or fail their checksum. Arrays of the file that are not asked for are ignored. Floating-point arrays
// of another dtype are converted. The checksum is compared for arrays whose `writes` pieces cover them once.
void load_checkpoint(const std::string& path, const std::vector<Stored>& arrays, Communicator& control,
                     Backend& backend);
void load_checkpoint(const std::string& path, const std::vector<Stored>& arrays, Communicator& control,
                     Backend& backend, std::int64_t round_bytes);

// --- one process, no MPI; throw Error(Exit::data) with what is wrong: missing, no HDF5, cut short, no checkpoint, too
// new
Attributes read_attributes(const std::string& path);  // what was saved, and "program"

// What the file says of an array.
struct ArrayInfo {
  std::string path;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::string hf_names, checksum;
};
std::vector<ArrayInfo> list_arrays(const std::string& path);  // sorted by path

// --- the folder checkpoints/ of a run (rank 0 only)
std::string checkpoint_name(std::int64_t step);  // "step_00000100.h5"
// The checkpoint that `latest` names, else the newest that opens and is complete, with the folder in front; what was
// passed over is appended to *complaints.
std::optional<std::string> find_latest(const std::string& folder, std::vector<std::string>* complaints);
void set_latest(const std::string& folder, const std::string& name);  // writes `latest` atomically
// Deletes all but the newest `keep` (0: none) and the one that `latest` names, and what interrupted writers left
// (*.part).
void retire_old(const std::string& folder, std::int64_t keep);

}  // namespace trireme
