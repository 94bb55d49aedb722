// One state, many layouts: what a grid has loaded it saves bit for bit, whatever grid wrote it. One MPI job runs all: a
// grid of n ranks uses the first n. Every grid of a chain loads what the one before has saved; the checksums of all
// arrays, which do not depend on the layout, stay those of the first.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/check.h"
#include "trireme/base/philox.h"
#include "trireme/comm/mpi.h"
#include "trireme/deck/read.h"
#include "trireme/train/engine.h"
#include "trireme/train/memory_plan.h"
#include "trireme/train/state.h"

using namespace trireme;

namespace {

using Settings = std::vector<std::string>;

const Settings k_common = {"batch.global=24", "data.source=mock",        "model.layers=6", "model.hidden=24",
                           "model.heads=6",   "model.sequence=24",       "model.vocab=61", "model.vocab_multiple=4",
                           "model.ffn=52",    "parallel.bucket_mb=0.02", "device.kind=cpu"};
const std::map<std::string, Settings> k_models = {
    {"tied fp64", {"precision.compute=fp64"}},
    {"untied bf16", {"model.tie_embeddings=false", "precision.compute=bf16"}},
    {"tied remainder", {"precision.compute=bf16", "precision.master=remainder", "precision.moments=bf16"}},
};

struct Layout {
  std::array<int, 4> pp_dp_cp_tp;
  Settings extra;
  SaveOptions options;
  Contents contents = Contents::all;
};

SaveOptions in_files(std::int64_t files) {
  SaveOptions options;
  options.files = files;
  return options;
}

SaveOptions collective() {
  SaveOptions options;
  options.transfer = Transfer::collective;
  return options;
}

// Every axis grows and shrinks; odd dp, uneven stages, interleaving, ZeRO on and off, up to 16 ranks.
std::vector<Layout> chain() {
  return {{{1, 1, 1, 1}, {}, {}},
          {{1, 2, 1, 1}, {}, {}},
          {{1, 3, 1, 1}, {}, in_files(2)},
          {{2, 1, 1, 2}, {}, {}},
          {{2, 2, 2, 2}, {}, {}},
          {{1, 1, 1, 6}, {"parallel.sequence=false"}, in_files(3)},
          {{3, 1, 1, 1}, {"parallel.stage_layers=[1,3,2]"}, {}},
          {{1, 1, 4, 1}, {}, {}},
          {{2, 1, 1, 1}, {"parallel.virtual_stages=3"}, {}},
          {{1, 8, 1, 2}, {"parallel.zero=false"}, {}},
          {{1, 1, 1, 2}, {}, collective()},
          {{2, 1, 2, 3}, {"parallel.virtual_stages=3", "parallel.sequence=false"}, {}},
          {{5, 1, 1, 3}, {"parallel.stage_layers=[1,1,2,1,1]", "parallel.sequence=false"}, in_files(7)},
          {{1, 2, 2, 4}, {"parallel.zero=false", "parallel.sequence=false"}, {}},
          {{1, 1, 1, 1}, {}, {}},
          {{1, 3, 1, 2}, {}, {}, Contents::weights}};
}

Deck deck_of(const Settings& model, const Layout& layout) {
  Settings settings = k_common;
  settings.insert(settings.end(), model.begin(), model.end());
  const char* keys[] = {"parallel.pipeline", "parallel.data", "parallel.context", "parallel.tensor"};
  int n = 1;
  for (std::size_t i = 0; i < 4; ++i) {
    settings.push_back(std::string(keys[i]) + "=" + std::to_string(layout.pp_dp_cp_tp[i]));
    n *= layout.pp_dp_cp_tp[i];
  }
  settings.insert(settings.end(), layout.extra.begin(), layout.extra.end());
  return parse_deck({}, settings, n);
}

// Moments and masters that are not zero and not the weights: any bits will do, they are only carried.
void scramble(Engine& engine, Backend& backend) {
  std::uint64_t seed = 0;
  for (Stored& array : everything(engine, Contents::all)) {
    ++seed;
    for (const StoredPiece& piece : array.pieces) {
      if (array.path.starts_with("/param/")) continue;
      std::vector<std::byte> bytes(piece.data.bytes());
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(random_word({seed, 0, 0}, i + 1000 * array.pieces.size()));
      backend.to_device(piece.data, bytes.data());
    }
  }
}

// Of the whole state, or of weights and masters alone (the moments are then left out).
std::string sums_of(const std::string& path, Contents contents) {
  std::string text;
  for (const ArrayInfo& array : list_arrays(path)) {
    if (contents == Contents::all || !array.path.starts_with("/adam_"))
      text += array.path + " " + array.checksum + "\n";
  }
  return text;
}

// Loads `from` (the first of a chain has none) and saves what was loaded.
void carry(const Deck& deck, const Layout& layout, std::unique_ptr<Communicator> part, Communicator& control,
           Backend& backend, Contents contents, const std::string& from, const std::string& to) {
  const Model model(deck.model);
  const ProcessGrid grid(std::move(part), layout.pp_dp_cp_tp);
  const RankPlan plan = plan_rank(deck, model, grid.here(), DeviceKind::cpu);
  Engine engine(deck, model, grid, backend, plan.sizes, Wires::real);
  engine.initialise();
  const std::optional<DType> masters = deck.precision.compute == "fp64"       ? std::nullopt
                                       : deck.precision.master == "remainder" ? std::optional(DType::u16)
                                                                              : std::optional(DType::f32);
  if (from.empty()) {
    scramble(engine, backend);
  } else {
    load_checkpoint(from, to_load(engine, contents, masters), control, backend);
    settle_loaded(engine, masters);
  }
  save_checkpoint(to, everything(engine, Contents::all), {{"step", "1"}}, control, backend, layout.options);
}

int check_chain(const MpiSession& session, const std::string& name, const Settings& model, const std::string& folder) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(1);
  const std::unique_ptr<Communicator> world = session.world(*backend, Memory::host);
  int failures = 0, index = 0;
  std::string before, first;
  for (const Layout& layout : chain()) {
    const auto& size = layout.pp_dp_cp_tp;
    const bool inside = session.rank() < size[0] * size[1] * size[2] * size[3];
    std::unique_ptr<Communicator> part = world->split(inside ? 0 : 1, session.rank());
    std::unique_ptr<Communicator> control = world->split(inside ? 0 : 1, session.rank());
    const std::string path = folder + "/" + name + std::to_string(index++) + ".h5";
    if (inside)
      carry(deck_of(model, layout), layout, std::move(part), *control, *backend, layout.contents, before, path);
    if (session.rank() == 0) {
      if (first.empty()) first = path;
      const bool same = sums_of(path, layout.contents) == sums_of(first, layout.contents);
      failures += same ? 0 : 1;
      std::printf("%s %-14s pp%d dp%d cp%d tp%d, %lld file%s%s\n", same ? "ok  " : "FAIL", name.c_str(), size[0],
                  size[1], size[2], size[3], static_cast<long long>(layout.options.files),
                  layout.options.transfer == Transfer::collective ? ", collective" : "",
                  layout.contents == Contents::weights ? ", weights alone" : "");
      std::fflush(stdout);
    }
    before = path;
    world->barrier();
  }
  return failures;
}

}  // namespace

int main() {
  const MpiSession session;
  try {
    std::string folder;
    if (session.rank() == 0) {
      // Many small files: memory where there is such a folder, for the syncs.
      const std::filesystem::path memory = "/dev/shm", disk = std::filesystem::temp_directory_path();
      folder = ((std::filesystem::exists(memory) ? memory : disk) / "trireme_layouts_XXXXXX").string();
      require(mkdtemp(folder.data()) != nullptr, "a temporary folder");
    }
    folder = session.broadcast(folder);
    int failures = 0;
    for (const auto& [name, model] : k_models) failures += check_chain(session, name, model, folder);
    if (session.rank() == 0) std::filesystem::remove_all(folder);
    return session.any(failures > 0) ? 1 : 0;
  } catch (const std::exception& error) {
    session.abort(1, error.what());
  }
}
