#include <algorithm>
#include <optional>

#include "checkpoint_file.h"
#include "checksum.h"
#include "direct.h"
#include "trireme/base/check.h"
#include "trireme/io/reader.h"

namespace trireme {

namespace {

const std::string& source_of(const Stored& array) {
  return array.source.empty() ? array.path : array.source;
}

// The same array but for the number of padded rows.
bool same_shape(const Stored& wanted, const Shape& found) {
  if (wanted.valid_rows == 0 || found.rank != wanted.global.rank) return found == wanted.global;
  Shape other = found;
  other[0] = wanted.global[0];
  return other == wanted.global && found[0] >= wanted.valid_rows;
}

// Why the array of the file cannot fill the pieces, or nothing.
std::string mismatch(const Stored& wanted, const CatalogueEntry& found) {
  if (!same_shape(wanted, found.place.shape)) {
    return source_of(wanted) + " has the shape " + to_string(found.place.shape) + " in the file, " +
           to_string(wanted.global) + " here";
  }
  for (const StoredPiece& piece : wanted.pieces) {
    if (can_load(piece, found.place.dtype)) continue;
    return source_of(wanted) + " is of dtype " + name_of(found.place.dtype) + " in the file, which cannot become " +
           name_of(piece.data.dtype);
  }
  return "";
}

void require_fit(const std::string& path, const Catalogue& catalogue, const std::vector<Stored>& arrays) {
  std::string problems;
  for (const Stored& array : arrays) {
    for (const StoredPiece& piece : array.pieces) require_piece(array, piece);
    const CatalogueEntry* found = catalogue.find(source_of(array));
    const std::string problem =
        found != nullptr ? mismatch(array, *found) : source_of(array) + " is missing in the file";
    if (!problem.empty()) problems += "\n  " + problem;
  }
  if (problems.empty()) return;
  throw Error(Exit::data, path +
                              " does not fit this model; check [model] and [precision] of the deck, or set run.resume "
                              "= \"never\" (a file without /adam_m and /adam_v: run.weights_only = true):" +
                              problems);
}

// A file that HDF5 must be asked about: its own layout, filters. Every rank reads it for itself, one process each.
class ThroughHdf5 {
 public:
  ThroughHdf5(std::string path, Backend& backend, std::int64_t round_bytes)
      : path_(std::move(path)),
        backend_(backend),
        round_bytes_(round_bytes),
        in_(backend),
        values_(backend),
        weights_(backend) {}

  Share read(const Stored& array, const ArrayPlace& place) {
    if (!file_) file_ = H5File::open_alone(path_);
    const H5Array source = file_->find_array(source_of(array));
    const auto size = static_cast<std::int64_t>(size_of(place.dtype));
    const std::int64_t step = std::max<std::int64_t>(1, round_bytes_ / std::max<std::int64_t>(size, 8));
    Share share;
    for (const StoredPiece& piece : array.pieces) {
      const std::int64_t n = piece.box.count();
      for (Range range{0, 0}; range.first < n; range.first = range.last) {
        range.last = std::min(n, range.first + step);
        read_slice(source, piece, range, place, share);
      }
    }
    return share;
  }

 private:
  void read_slice(const H5Array& source, const StoredPiece& piece, const Range& range, const ArrayPlace& place,
                  Share& share) {
    const auto size = static_cast<std::int64_t>(size_of(place.dtype));
    std::byte* in = in_.at_least(static_cast<std::size_t>(range.count() * size));
    std::fill_n(in, range.count() * size, std::byte{0});
    std::int64_t from = 0;
    for (Box box : boxes_of(piece.box, range.first, range.last)) {
      const std::int64_t whole = box.count();
      box.extent[0] = std::clamp<std::int64_t>(place.shape[0] - box.offset[0], 0, box.extent[0]);
      if (box.count() > 0) file_->read(source, {&box, 1}, in + from * size);
      from += whole;
    }
    const Lines lines = lines_of(place, piece.box, range);
    for (const Stretch& stretch : lines.stretches) {
      if (piece.writes)
        share.sum += checksum(in + stretch.from * size, static_cast<std::size_t>(size), stretch.at, stretch.count);
    }
    if (piece.writes) share.count += static_cast<std::uint64_t>(lines.count);
    load_from_host(backend_, piece, range, place.dtype, in, values_, weights_);
  }

  std::string path_;
  Backend& backend_;
  std::int64_t round_bytes_;
  std::optional<H5File> file_;
  HostBuffer in_, values_, weights_;
};

// Padding of the file that nobody here has rows for: it is zero, and its share of the checksum known without reading.
Share beyond(const Stored& array, const ArrayPlace& place) {
  const std::int64_t first = array.global.count(), n = std::max<std::int64_t>(0, place.shape.count() - first);
  return {checksum_of_zeros(place.dtype, first, n), static_cast<std::uint64_t>(n)};
}

// Compares where the ranks together read the array exactly once. Nothing can be said of arrays that are read in part.
void verify(const std::string& path, const Catalogue& catalogue, const std::vector<Stored>& arrays,
            const std::vector<Share>& shares, const Ranks& ranks) {
  std::vector<std::uint64_t> sums, counts;
  for (const Share& share : shares) {
    sums.push_back(share.sum);
    counts.push_back(share.count);
  }
  ranks.sum(sums);
  ranks.sum(counts);
  std::string damaged;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const CatalogueEntry& entry = *catalogue.find(source_of(arrays[i]));
    const Share more = beyond(arrays[i], entry.place);
    if (counts[i] + more.count != static_cast<std::uint64_t>(entry.place.shape.count())) continue;
    const std::string found = checksum_text(sums[i] + more.sum);
    if (found != entry.checksum)
      damaged += "\n  " + entry.path + " has the checksum " + found + ", expected " + entry.checksum;
  }
  if (damaged.empty()) return;
  throw Damaged(Exit::data, path + " is damaged; use an older checkpoint or another copy of this one:" + damaged);
}

std::vector<Share> read_all(const std::string& path, const Catalogue& catalogue, const std::vector<Stored>& arrays,
                            Backend& backend, std::int64_t round_bytes) {
  DataFiles files(catalogue.files, DataFiles::Mode::reading);
  Direct direct(files, backend, round_bytes);
  ThroughHdf5 other(path, backend, round_bytes);
  std::vector<Share> shares;
  for (const Stored& array : arrays) {
    const CatalogueEntry& entry = *catalogue.find(source_of(array));
    shares.push_back(entry.in_place ? direct.read(array, entry.place) : other.read(array, entry.place));
  }
  return shares;
}

}  // namespace

void load_checkpoint(const std::string& path, const std::vector<Stored>& arrays, Communicator& control,
                     Backend& backend, std::int64_t round_bytes) {
  const Ranks ranks(control);
  std::string packed;
  ranks.first_alone([&] {
    std::vector<std::string> wanted;
    for (const Stored& array : arrays) wanted.push_back(source_of(array));
    const H5File file = open_checkpoint(path);
    packed = (wanted.empty() ? Catalogue{} : read_catalogue(path, file, wanted)).pack();
  });
  const Catalogue catalogue = Catalogue::unpack(ranks.broadcast(packed));
  ranks.together([&] { require_fit(path, catalogue, arrays); });
  std::vector<Share> shares;
  try {
    ranks.together([&] { shares = read_all(path, catalogue, arrays, backend, round_bytes); });
  } catch (const Error& error) {
    if (error.code == Exit::data) throw Damaged(error.code, error.what());
    throw;
  }
  verify(path, catalogue, arrays, shares, ranks);
}

void load_checkpoint(const std::string& path, const std::vector<Stored>& arrays, Communicator& control,
                     Backend& backend) {
  load_checkpoint(path, arrays, control, backend, k_round_bytes);
}

}  // namespace trireme
