#pragma once
// Checkpoints: one parallel HDF5 file of global arrays in logical shapes, written to a temporary name, synced, renamed.
// It knows arrays and attributes, not training: the trainer lists what there is (Stored).

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/check.h"
#include "trireme/comm/communicator.h"
#include "trireme/device/backend.h"
#include "trireme/io/stored.h"

namespace trireme {

inline constexpr int k_checkpoint_version = 1;

// Scalars and texts of a checkpoint, attributes of the root group. Numbers are printed so that they read back exactly.
using Attributes = std::map<std::string, std::string>;

// direct: every rank writes its own blocks of the file at the places that HDF5 has given the arrays; no rank waits for
// another until all have written, so a full disk hangs nobody. collective: H5Dwrite through MPI-IO, for file systems
// that want few writers; what becomes of the others when one fails is up to the MPI library.
enum class Transfer : std::uint8_t { direct, collective };

struct SaveOptions {
  std::int64_t files = 1;  // more: PATH has virtual arrays over this many files beside it
  Transfer transfer = Transfer::direct;
  std::int64_t align_bytes = 1 << 20;          // arrays begin at multiples of it
  std::map<std::string, std::string> hints{};  // of MPI-IO: "striping_factor", "cb_nodes"
  std::int64_t round_bytes = 256 << 20;        // of a rank's array on the host at a time
};

// Collective over `control` (an MPI communicator). Writes PATH.part, then renames to PATH. Throws Error(Exit::data) on
// every rank alike when any rank fails; an earlier PATH is untouched until the rename. One thread at a time: HDF5 is
// used by rank 0 (and with Transfer::collective by all).
void save_checkpoint(const std::string& path, const std::vector<Stored>& arrays, const Attributes& attributes,
                     Communicator& control, Backend& backend, const SaveOptions& options);
// Makes and removes the file without the data of the arrays: for measuring what the metadata cost. One process.
double seconds_of_metadata(const std::string& path, const std::vector<Stored>& arrays, const SaveOptions& options);

// A file whose contents are not what was written: cut short, changed. Another copy or an older one may do.
struct Damaged : Error {
  using Error::Error;
};

// Reads each piece from the array of the same path (or of Stored::source). Throws Error(Exit::data) naming arrays that
// are missing, have another shape or dtype, before anything is loaded; Damaged when reading fails or a checksum does
// not match. Arrays of the file that are not asked for are ignored. Floating-point arrays of another dtype are
// converted. The checksum is compared for arrays whose pieces that write cover them once.
void load_checkpoint(const std::string& path, const std::vector<Stored>& arrays, Communicator& control,
                     Backend& backend);
void load_checkpoint(const std::string& path, const std::vector<Stored>& arrays, Communicator& control,
                     Backend& backend, std::int64_t round_bytes);

// Collective: runs work on every rank; what any of them throws (the lowest rank's) is thrown on all.
void agree(Communicator& control, const std::function<void()>& work);

// --- one process, no MPI; throw Error(Exit::data) with what is wrong: missing, no HDF5, cut short, no checkpoint, too
// new
Attributes read_attributes(const std::string& path);  // what was saved, and "program"

std::string pack(const Attributes& attributes);  // as one text, for broadcasting
Attributes unpack_attributes(const std::string& text);

// What the file says of an array.
struct ArrayInfo {
  std::string path;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::string hf_names, checksum;
  std::vector<std::int64_t> chunk;  // empty: contiguous
};
std::vector<ArrayInfo> list_arrays(const std::string& path);  // sorted by path

// --- the folder checkpoints/ of a run (rank 0 only)
std::string checkpoint_name(std::int64_t step);  // "step_00000100.h5"
// The checkpoints that open and are complete, with the folder in front: the one that `latest` names, then the newest
// first. Why others are left out is appended to *complaints.
std::vector<std::string> find_checkpoints(const std::string& folder, std::vector<std::string>* complaints);
void set_latest(const std::string& folder, const std::string& name);  // writes `latest` atomically
// Collective over `control`: rank 0 makes the checkpoint of this step the latest, then retires; see retire_old.
std::vector<std::string> commit_checkpoint(const std::string& folder, std::int64_t step, std::int64_t keep,
                                           std::int64_t keep_every, Communicator& control);
// Deletes all but the newest `keep` (0: none), those whose step is a multiple of keep_every (0: no such), the one that
// `latest` names, and what interrupted writers left. What could not be deleted is returned as messages.
std::vector<std::string> retire_old(const std::string& folder, std::int64_t keep, std::int64_t keep_every);

}  // namespace trireme
