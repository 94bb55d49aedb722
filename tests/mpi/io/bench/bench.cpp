// How fast checkpoints are, against what the same ranks write and read with plain calls in the same run. A program to
// read, driven by tests/bench/checkpoint.py: bench FOLDER ROUNDS LAYERS HIDDEN. It prints one JSON object.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "trireme/base/check.h"
#include "trireme/comm/mpi.h"
#include "trireme/deck/read.h"
#include "trireme/train/engine.h"
#include "trireme/train/job.h"
#include "trireme/train/memory_plan.h"
#include "trireme/train/snapshot.h"
#include "trireme/train/state.h"

using namespace trireme;

namespace {

constexpr std::int64_t k_call = 4 << 20;  // bytes of a plain call

class Bench {
 public:
  Bench(const MpiSession& session, Communicator& world) : session_(session), world_(world) {}

  // Seconds until the slowest rank has done the work.
  double time(const std::function<void()>& work) const {
    world_.barrier();
    const auto start = std::chrono::steady_clock::now();
    work();
    world_.barrier();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  int rank() const { return session_.rank(); }

 private:
  const MpiSession& session_;
  Communicator& world_;
};

// This rank's share of a file of `bytes`, from and to memory that is there already.
void move_plainly(const std::string& path, bool writes, Range bytes, std::byte* memory) {
  const int file = ::open(path.c_str(), writes ? O_WRONLY | O_CREAT : O_RDONLY, 0666);
  require(file >= 0, "opening " + path);
  for (std::int64_t at = bytes.first; at < bytes.last; at += k_call) {
    const auto n = static_cast<std::size_t>(std::min(k_call, bytes.last - at));
    std::byte* here = memory + (at - bytes.first);
    const ssize_t moved = writes ? ::pwrite(file, here, n, at) : ::pread(file, here, n, at);
    require(moved == static_cast<ssize_t>(n), "moving bytes of " + path);
  }
  if (writes) require(::fsync(file) == 0, "fsync");
  ::close(file);
}

// Forgets what the page cache holds of a file whose bytes are on the disk.
void forget(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  require(file >= 0 && ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0, "forgetting " + path);
  ::close(file);
}

double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atof(line.c_str() + 6) / 1024;
  }
  return 0;
}

Deck deck_of(const std::string& layers, const std::string& hidden, int n_ranks) {
  return parse_deck({},
                    std::vector<std::string>{"data.source=mock", "device.kind=cpu", "model.layers=" + layers,
                                             "model.hidden=" + hidden, "model.heads=16", "model.vocab=50257",
                                             "precision.compute=bf16", "precision.gradients=bf16", "model.sequence=128",
                                             "batch.global=8", "parallel.tensor=2"},
                    n_ranks);
}

double metadata_seconds(const std::string& folder) {
  const std::vector<std::string> settings = {
      "data.source=mock",  "device.kind=cpu",     "model.layers=96",        "model.hidden=12288",
      "model.heads=96",    "model.sequence=2048", "model.vocab=51200",      "batch.global=64",
      "parallel.tensor=8", "parallel.pipeline=8", "precision.compute=bf16", "parallel.stage_layers=[]"};
  const Deck deck = parse_deck({}, settings, 64);
  const Model model(deck.model);
  const auto backend = make_plan_backend(DeviceKind::cpu);
  const ProcessGrid grid = ProcessGrid::planned(point_of(grid_size(deck.parallel, 64), 0));
  Engine engine(deck, model, grid, *backend, {}, Wires::planned);
  return seconds_of_metadata(folder + "/structure.h5", everything(engine, Contents::all), {});
}

void run(const MpiSession& session, const std::string& folder, int rounds, const char* layers, const char* hidden) {
  const auto backend = make_cpu_backend(1);
  const auto world = session.world(*backend, Memory::host);
  const Bench bench(session, *world);
  const Deck deck = deck_of(layers, hidden, session.size());
  const Model model(deck.model);
  const ProcessGrid grid(session.world(*backend, Memory::host), grid_size(deck.parallel, session.size()));
  const RankPlan plan = plan_rank(deck, model, grid.here(), DeviceKind::cpu);
  Engine engine(deck, model, grid, *backend, plan.sizes, Wires::real);
  engine.initialise();
  const std::vector<Stored> arrays = everything(engine, Contents::all);
  double bytes = 0;
  for (const Stored& array : arrays)
    bytes += static_cast<double>(array.global.count() * static_cast<std::int64_t>(size_of(array.dtype)));

  Snapshot snapshot(*backend, snapshot_bytes(arrays));
  std::vector<Stored> copies;
  const double first_copy = bench.time([&] { copies = snapshot.take(arrays); });
  const double copy = bench.time([&] { copies = snapshot.take(arrays); });
  const Range mine = cut(static_cast<std::int64_t>(bytes), session.size(), session.rank());
  std::vector<std::byte> plain(static_cast<std::size_t>(mine.count()), std::byte{1});
  const std::string raw = folder + "/raw", path = folder + "/step_00000001.h5";
  std::vector<double> raw_writes, saves, raw_reads, loads;
  for (int i = 0; i < rounds; ++i) {
    if (bench.rank() == 0) ::unlink(raw.c_str()), ::unlink(path.c_str());
    raw_writes.push_back(bench.time([&] { move_plainly(raw, true, mine, plain.data()); }));
    saves.push_back(bench.time([&] {
      save_checkpoint(path, copies, {{"deck", print_deck(deck)}, {"step", "1"}}, *world, *backend, {});
    }));
    forget(raw);
    raw_reads.push_back(bench.time([&] { move_plainly(raw, false, mine, plain.data()); }));
    forget(path);
    loads.push_back(bench.time([&] { load_checkpoint(path, arrays, *world, *backend); }));
  }
  const double metadata = bench.rank() == 0 ? metadata_seconds(folder) : 0;
  if (bench.rank() != 0) return;
  const auto list = [](const std::vector<double>& seconds) {
    std::string text;
    for (const double s : seconds) text.append(text.empty() ? "[" : ",").append(std::to_string(s));
    return text.append("]");
  };
  std::printf(
      "{\"bytes\":%.0f,\"ranks\":%d,\"raw_write\":%s,\"save\":%s,\"raw_read\":%s,\"load\":%s,\"first_copy\":%g,"
      "\"copy\":%g,\"metadata_175b\":%g,\"peak_mib\":%.0f}\n",
      bytes, session.size(), list(raw_writes).c_str(), list(saves).c_str(), list(raw_reads).c_str(),
      list(loads).c_str(), first_copy, copy, metadata, peak_mib());
}

}  // namespace

int main(int argc, char** argv) {
  const MpiSession session;
  try {
    require(argc == 5, "usage: bench FOLDER ROUNDS LAYERS HIDDEN");
    run(session, argv[1], std::atoi(argv[2]), argv[3], argv[4]);
    return 0;
  } catch (const std::exception& error) {
    session.abort(1, error.what());
  }
}
