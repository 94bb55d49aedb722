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

// Collective over `control` (an MPI communicator). Writes PATH.part, then renames to PATH. Throws Error(Exit::data) on every
// rank alike when any rank fails; an earlier PATH is untouched until the rename.
void save_checkpoint(const std::string& path, const std::vector<Stored>& arrays, const Attributes& attributes,
                     Communicator& control, Backend& backend);

// Reads each piece from the array of the same path. Throws Error(Exit::data) naming arrays that are missing, have another
// shape, or fail their checksum. Arrays of the file that are not asked for are ignored.
void load_checkpoint(const std::string& path, const std::vector<Stored>& arrays, Communicator& control, Backend& backend);
Attributes read_attributes(const std::string& path);  // one process, no MPI; throws Error(Exit::data) with what is wrong

// --- the folder checkpoints/ of a run (rank 0 only)
std::string checkpoint_name(std::int64_t step);                         // "step_00000100.h5"
// Newest checkpoint that opens and is complete; what was passed over is appended to *complaints.
std::optional<std::string> find_latest(const std::string& folder, std::vector<std::string>* complaints);
void set_latest(const std::string& folder, const std::string& name);    // writes `latest` atomically
void retire_old(const std::string& folder, std::int64_t keep);          // deletes all but the newest `keep`

}  // namespace trireme
