#include <algorithm>
#include <optional>

#include "checkpoint_file.h"
#include "convert.h"
#include "h5.h"
#include "staging.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/io/checkpoint.h"

namespace trireme {

namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// Why the array of the file cannot fill the pieces, or nothing.
std::string mismatch(const Stored& wanted, const H5Array& found) {
  if (shape_text(found.shape) != to_string(wanted.global)) {
    return wanted.path + " has the shape " + shape_text(found.shape) + " in the file, " + to_string(wanted.global) +
           " here";
  }
  for (const StoredPiece& piece : wanted.pieces) {
    if (can_convert(piece.data.dtype, found.dtype)) continue;
    return wanted.path + " is of dtype " + name_of(found.dtype) + " in the file, which cannot become " +
           name_of(piece.data.dtype);
  }
  return "";
}

std::vector<H5Array> find_arrays(const std::string& path, const H5File& file, const std::vector<Stored>& arrays) {
  std::vector<H5Array> found;
  std::string problems;
  for (const Stored& array : arrays) {
    std::string problem = array.path + " is missing in the file";
    if (file.has(array.path)) {
      found.push_back(file.find_array(array.path));
      problem = mismatch(array, found.back());
    }
    if (!problem.empty()) problems += "\n  " + problem;
  }
  if (problems.empty()) return found;
  throw Error(
      Exit::data,
      path + " does not fit this model; check [model] and [precision] of the deck, or set run.resume = \"never\":" +
          problems);
}

// This rank's share of an array's checksum; only those who would write it count, so that every element counts once.
struct Share {
  std::uint64_t sum = 0, count = 0;
};

Share read_array(const H5File& file, const H5Array& source, const Stored& array, const ArrayPlan& plan,
                 Staging& staging, const Ranks& ranks) {
  Share share;
  for (std::int64_t i = 0; i < plan.n_meetings; ++i) {
    const Round round = plan.round(i);
    ranks.together([&] { staging.buffer(round, source.dtype); });
    ranks.together([&] { file.read(source, round.boxes, staging.buffer(round, source.dtype)); });
    ranks.together([&] {
      const Runs runs = runs_of(array, round);
      if (array.writes) share.sum += staging.sum(round, runs, source.dtype);
      staging.to_pieces(array, round, runs, source.dtype);
    });
    if (array.writes) share.count += static_cast<std::uint64_t>(round.count);
  }
  return share;
}

// Compares where the ranks together read the array exactly once. Nothing can be said of arrays that are read in part.
void verify(const std::string& path, const H5File& file, const std::vector<H5Array>& sources,
            const std::vector<Stored>& arrays, std::vector<Share> shares, const Ranks& ranks) {
  std::vector<std::uint64_t> sums, counts;
  for (const Share& share : shares) {
    sums.push_back(share.sum);
    counts.push_back(share.count);
  }
  ranks.sum(sums);
  ranks.sum(counts);
  ranks.together([&] {
    std::string damaged;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (counts[i] != static_cast<std::uint64_t>(arrays[i].global.count())) continue;
      const std::string expected = file.text(sources[i], k_checksum_name).value_or("none"),
                        found = checksum_text(sums[i]);
      if (found != expected)
        damaged += "\n  " + arrays[i].path + " has the checksum " + found + ", expected " + expected;
    }
    if (damaged.empty()) return;
    throw Error(Exit::data, path + " is damaged; use an older checkpoint or another copy of this one:" + damaged);
  });
}

}  // namespace

void load_checkpoint(const std::string& path, const std::vector<Stored>& arrays, Communicator& control,
                     Backend& backend, std::int64_t round_bytes) {
  const Ranks ranks(control);
  ranks.first_alone([&] { read_attributes(path); });
  std::optional<H5File> file;
  std::vector<H5Array> sources;
  std::vector<ArrayPlan> plans;
  ranks.together([&] { file = H5File::open(path, ranks); });
  ranks.together([&] {
    sources = find_arrays(path, *file, arrays);
    for (std::size_t i = 0; i < arrays.size(); ++i)
      plans.push_back(plan_array(arrays[i], sources[i].dtype, round_bytes));
  });
  agree_on_rounds(plans, ranks);

  Staging staging(backend);
  std::vector<Share> shares;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    shares.push_back(read_array(*file, sources[i], arrays[i], plans[i], staging, ranks));
  }
  verify(path, *file, sources, arrays, shares, ranks);
}

void load_checkpoint(const std::string& path, const std::vector<Stored>& arrays, Communicator& control,
                     Backend& backend) {
  load_checkpoint(path, arrays, control, backend, k_round_bytes);
}

}  // namespace trireme
