// Only the ranks that need tokens open them: training on three pipeline stages runs to its end although the stage in
// the middle is told a file that does not exist. On three ranks.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "trireme/deck/read.h"
#include "trireme/train/data_start.h"
#include "trireme/train/trainer.h"

namespace {

using namespace trireme;
namespace fs = std::filesystem;

constexpr const char* k_deck = R"(
[run]
steps = 3
[model]
layers = 3
hidden = 16
heads = 4
sequence = 16
vocab = 61
vocab_multiple = 1
[parallel]
pipeline = 3
[batch]
global = 4
[data]
source = "tokens"
paths = ["replaced by each rank"]
validation_fraction = 0.2
mask_eod = true
eod = 0
[eval]
every = 2
[log]
level = "error"
[precision]
compute = "fp64"
[device]
kind = "cpu"
threads = 1
)";

bool has_open(const fs::path& wanted) {
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the listing itself is a file
    if (fs::read_symlink(entry.path(), gone) == wanted) return true;
  }
  return false;
}

int failures = 0;

void expect(const MpiSession& session, const char* what, bool good) {
  if (session.any(!good)) ++failures;
  if (!good) std::printf("FAIL rank %d: %s\n", session.rank(), what);
}

void write_tokens(const fs::path& file) {
  std::ofstream out(file, std::ios::binary);
  for (int i = 0; i < 2000; ++i) {
    out.put(static_cast<char>(i * 7 % 61));
    out.put(0);
  }
}

void train(const MpiSession& session, const fs::path& folder) {
  const fs::path file = folder / "tokens.bin";
  if (session.rank() == 0) write_tokens(file);
  session.any(false);  // it is there
  Deck deck = parse_deck({{"deck", k_deck}}, {}, session.size());
  deck.run.output = folder / "run";
  const bool middle = session.rank() == 1;
  deck.data.paths = {middle ? folder / "nothing.bin" : file};

  Trainer trainer(deck, session);
  expect(session, "the first and the last stage hold the file open, the middle one does not",
         has_open(file) == !middle);
  expect(session, "the run ends as it should", trainer.run() == Exit::finished);
}

void masks(const MpiSession& session) {
  Deck deck = parse_deck({{"deck", k_deck}}, {}, session.size());
  const GridPoint middle = point_of({3, 1, 1, 1}, 1);
  expect(session, "the point is the middle stage", middle.at(Axis::pp) == 1);
  expect(session, "the middle stage reads nothing", !reads_tokens(deck, middle));
  deck.data.mask_documents = true;
  expect(session, "where documents are masked every stage reads", reads_tokens(deck, middle));
}

}  // namespace

int main() {
  const MpiSession session;
  try {
    std::string name = (fs::temp_directory_path() / "trireme_readers_XXXXXX").string();
    if (session.rank() == 0 && mkdtemp(name.data()) == nullptr) session.abort(1, "no temporary folder");
    const fs::path folder = session.broadcast(name);
    train(session, folder);
    masks(session);
    if (session.rank() == 0) fs::remove_all(folder);
    return failures > 0 ? 1 : 0;
  } catch (const std::exception& error) {
    session.abort(1, error.what());
  }
}
