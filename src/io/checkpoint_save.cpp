#include <chrono>
#include <optional>

#include "checkpoint_file.h"
#include "direct.h"
#include "trireme/base/check.h"
#include "trireme/io/element.h"
#include "trireme/io/reader.h"

namespace trireme {

namespace {

// Every element is written by one rank: anything else is our bug, and found before the first byte.
void require_whole(const std::vector<Stored>& arrays, const Ranks& ranks) {
  std::vector<std::uint64_t> counts;
  ranks.together([&] {
    for (const Stored& array : arrays) {
      counts.push_back(0);
      require(array.global.rank >= 1, array.path + ": a stored array has at least one dimension");
      for (const StoredPiece& piece : array.pieces) {
        require_piece(array, piece);
        require(can_convert(array.dtype, piece.data.dtype),
                array.path + ": a piece cannot become the dtype of the file");
        if (piece.writes) counts.back() += static_cast<std::uint64_t>(piece.box.count());
      }
    }
  });
  ranks.sum(counts);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto expected = static_cast<std::uint64_t>(arrays[i].global.count());
    require(counts[i] == expected, arrays[i].path + ": the ranks write " + std::to_string(counts[i]) + " elements of " +
                                       std::to_string(expected));
  }
}

using Sums = std::vector<std::uint64_t>;

// Each rank for itself; what goes wrong on one is told to all when every rank is done.
Sums write_direct(const Catalogue& catalogue, const std::vector<Stored>& arrays, const Ranks& ranks, Backend& backend,
                  std::int64_t slice_bytes) {
  Sums sums(arrays.size());
  ranks.together([&] {
    DataFiles files(catalogue.files, DataFiles::Mode::writing);
    Direct direct(files, backend, slice_bytes);
    for (std::size_t i = 0; i < arrays.size(); ++i) sums[i] = direct.write(arrays[i], catalogue.entries[i].place).sum;
    files.sync();
  });
  return sums;
}

std::uint64_t write_rounds(H5File& file, const H5Array& target, const Stored& array, const ArrayPlan& plan,
                           Staging& staging, const Ranks& ranks) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < plan.n_meetings; ++i) {
    const Round round = plan.round(i);
    ranks.together([&] {
      const Runs runs = runs_of(array, round);
      staging.from_pieces(array, round, runs, array.dtype);
      sum += staging.sum(round, runs, array.dtype);
    });
    ranks.together([&] { file.write(target, round.boxes, staging.buffer(round, array.dtype)); });
  }
  return sum;
}

Stored only_written(Stored array) {
  std::erase_if(array.pieces, [](const StoredPiece& piece) { return !piece.writes; });
  return array;
}

// All ranks in every call. HDF5 only fills in: its metadata are written already.
Sums write_collective(const Catalogue& catalogue, const std::vector<Stored>& arrays, const Ranks& ranks,
                      Backend& backend, const SaveOptions& options) {
  std::vector<Stored> written;
  std::vector<ArrayPlan> plans;
  ranks.together([&] {
    for (const Stored& array : arrays) {
      written.push_back(only_written(array));
      plans.push_back(plan_array(written.back(), array.dtype, options.round_bytes));
    }
  });
  agree_on_rounds(plans, ranks);
  std::optional<H5File> file;
  Sums sums(arrays.size());
  ranks.together([&] { file = H5File::open_together(catalogue.files.front(), ranks, options.hints); });
  Staging staging(backend);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::optional<H5Array> target;
    ranks.together([&] { target = file->find_array(arrays[i].path); });
    sums[i] = write_rounds(*file, *target, written[i], plans[i], staging, ranks);
  }
  ranks.together([&] { file->close(); });
  return sums;
}

void write_all(Names& names, const std::vector<Stored>& arrays, const Attributes& attributes, const Ranks& ranks,
               Backend& backend, const SaveOptions& options) {
  std::string packed;
  ranks.first_alone([&] { packed = lay_out(names, arrays, attributes, options, Room::reserved).pack(); });
  Catalogue catalogue = Catalogue::unpack(ranks.broadcast(packed));
  Sums sums = options.transfer == Transfer::direct || ranks.alone()
                  ? write_direct(catalogue, arrays, ranks, backend, options.round_bytes)
                  : write_collective(catalogue, arrays, ranks, backend, options);
  ranks.sum(sums);
  for (std::size_t i = 0; i < sums.size(); ++i) catalogue.entries[i].checksum = checksum_text(sums[i]);
  ranks.first_alone([&] {
    finish(names, catalogue, arrays, attributes);
    publish(names);
  });
}

}  // namespace

void save_checkpoint(const std::string& path, const std::vector<Stored>& arrays, const Attributes& attributes,
                     Communicator& control, Backend& backend, const SaveOptions& options) {
  const Ranks ranks(control);
  require(options.files == 1 || options.transfer == Transfer::direct, "several files are written directly only");
  require_whole(arrays, ranks);
  Names names;
  ranks.first_alone([&] { names = names_of(path, options.files); });
  try {
    write_all(names, arrays, attributes, ranks, backend, options);
  } catch (...) {
    if (ranks.rank() == 0) discard(names);
    throw;
  }
}

double seconds_of_metadata(const std::string& path, const std::vector<Stored>& arrays, const SaveOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Names names = names_of(path, options.files);
  Catalogue catalogue = lay_out(names, arrays, {}, options, Room::not_reserved);
  catalogue = Catalogue::unpack(catalogue.pack());
  finish(names, catalogue, arrays, {});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  discard(names);
  return seconds;
}

}  // namespace trireme
