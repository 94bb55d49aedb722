#pragma once
// What saving and loading a checkpoint share: names in the file, and the plan of collective meetings for each array.

#include <string>
#include <vector>

#include "h5_ranks.h"
#include "pieces.h"

namespace trireme {

inline constexpr const char* k_filetype_name = "filetype";
inline constexpr const char* k_filetype = "trireme checkpoint";
inline constexpr const char* k_version_name = "version";
inline constexpr const char* k_complete_name = "complete";  // 1, written last: without it the writer did not finish
inline constexpr const char* k_checksum_name = "checksum";

inline constexpr std::int64_t k_round_bytes = 256 << 20;

std::string checksum_text(std::uint64_t sum);  // 16 hexadecimal digits

// This rank's rounds of an array. All ranks meet equally often; a rank that has nothing left takes part with an empty
// round.
struct ArrayPlan {
  std::vector<Round> rounds;
  std::int64_t n_meetings = 0;
  Round round(std::int64_t i) const;
};
ArrayPlan plan_array(const Stored& array, DType file_dtype, std::int64_t round_bytes);
void agree_on_rounds(std::vector<ArrayPlan>& plans, const Ranks& ranks);
std::vector<std::uint64_t> counts_of(const std::vector<ArrayPlan>& plans);  // elements of this rank, array by array

}  // namespace trireme
