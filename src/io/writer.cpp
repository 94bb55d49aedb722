#include "trireme/io/writer.h"

#include <algorithm>
#include <optional>

#include "checkpoint_file.h"
#include "checksum.h"
#include "trireme/base/check.h"
#include "trireme/io/reader.h"

namespace trireme {

struct CheckpointWriter::State {
  Ranks ranks;
  std::vector<Stored> arrays;
  Attributes attributes;
  Names names;  // on rank 0
  Catalogue catalogue;
  std::optional<DataFiles> files;
  std::vector<std::uint64_t> sums, counts;
  bool committed = false;
};

CheckpointWriter::CheckpointWriter(const std::string& path, const std::vector<Stored>& arrays,
                                   const Attributes& attributes, Communicator& control, const SaveOptions& options)
    : state_(std::make_unique<State>(State{Ranks(control), arrays, attributes, {}, {}, {}, {}, {}, false})) {
  State& state = *state_;
  std::string packed;
  state.ranks.first_alone([&] {
    state.names = names_of(path, options.files);
    packed = lay_out(state.names, arrays, attributes, options, Room::reserved).pack();
  });
  state.catalogue = Catalogue::unpack(state.ranks.broadcast(packed));
  state.files.emplace(state.catalogue.files, DataFiles::Mode::writing);
  state.sums.resize(arrays.size());
  state.counts.resize(arrays.size());
}

CheckpointWriter::~CheckpointWriter() {
  if (!state_->committed && state_->ranks.rank() == 0) discard(state_->names);
}

void CheckpointWriter::write(std::size_t array, const Range& part, const std::byte* data) {
  const ArrayPlace& place = state_->catalogue.entries[array].place;
  Box box{place.shape, place.shape};
  std::fill(box.offset.dim.begin(), box.offset.dim.end(), 0);
  state_->sums[array] += checksum(data, size_of(place.dtype), part.first, part.count());
  state_->counts[array] += static_cast<std::uint64_t>(part.count());
  state_->files->write(lines_of(place, box, part).segments, data);
}

void CheckpointWriter::commit() {
  State& state = *state_;
  state.ranks.together([&] { state.files->sync(); });
  state.ranks.sum(state.sums);
  state.ranks.sum(state.counts);
  for (std::size_t i = 0; i < state.arrays.size(); ++i) {
    require(state.counts[i] == static_cast<std::uint64_t>(state.arrays[i].global.count()),
            state.arrays[i].path + ": not every element was written once");
    state.catalogue.entries[i].checksum = checksum_text(state.sums[i]);
  }
  state.ranks.first_alone([&] {
    finish(state.names, state.catalogue, state.arrays, state.attributes);
    publish(state.names);
  });
  state.committed = true;
}

}  // namespace trireme
