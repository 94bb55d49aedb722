// measure: makes the machine table that `trireme plan` reads, by timing operations of this machine one by one. One rank
// measures a device; under mpirun the ranks also measure what lies between them.
#include <boost/program_options.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

#include "measure.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/comm/mpi.h"
#include "trireme/deck/read.h"
#include "trireme/train/job.h"
#include "trireme/train/memory_plan.h"
#include "trireme/train/reporter.h"

namespace po = boost::program_options;
using namespace trireme;

namespace {

constexpr const char* k_usage =
    "Makes the machine table that trireme plan reads, by timing operations of this machine one by one.\n\n"
    "  measure --output FILE [options] [DECK ...]\n\n"
    "One rank measures a device. Under mpirun the ranks also measure messages between them: [node] when all are on "
    "one\n"
    "node, else [network] (then start one rank per node). --base FILE keeps what is not measured. The matrix products "
    "of\n"
    "the decks are measured besides a general grid of sizes.\n";

struct Arguments {
  std::string output, base, name, device = "auto";
  std::vector<std::string> decks, precisions;
  int gpus_per_node = 0;
  double seconds = 0.1;
  bool quick = false, help = false, wires_only = false;
};

po::options_description options_of(Arguments& a) {
  po::options_description options("Options");
  options.add_options()("help,h", "print this text");
  options.add_options()("output", po::value(&a.output), "the table to write");
  options.add_options()("base", po::value(&a.base), "start from this table");
  options.add_options()("name", po::value(&a.name), "name of the machine (the device's)");
  options.add_options()("device", po::value(&a.device), "auto, cpu or cuda (auto)");
  options.add_options()("precision", po::value(&a.precisions)->composing(),
                        "bf16, fp16, fp8, fp32 or fp64, repeatable; default: bf16 and fp8 on a GPU, fp32 on a CPU");
  options.add_options()("gpus-per-node", po::value(&a.gpus_per_node), "default: the GPUs of this node");
  options.add_options()("seconds", po::value(&a.seconds), "of each measurement (0.1)");
  options.add_options()("wires-only", "only the messages between ranks");
  options.add_options()("quick", "few and small sizes: a test of the command");
  return options;
}

Arguments parse_arguments(int argc, char** argv) {
  Arguments a;
  const po::options_description visible = options_of(a);
  po::options_description all;
  all.add(visible).add_options()("words", po::value(&a.decks), "");
  po::positional_options_description positional;
  positional.add("words", -1);
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv).options(all).positional(positional).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw SharedError(Exit::usage, std::string(error.what()) + "; measure --help explains");
  }
  a.help = values.count("help") > 0 || argc == 1;
  a.quick = values.count("quick") > 0;
  a.wires_only = values.count("wires-only") > 0;
  if (a.help) std::cout << k_usage << "\n" << visible;
  if (!a.help && a.output.empty()) throw SharedError(Exit::usage, "measure needs --output FILE");
  return a;
}

// The products of a deck on one rank; other layouts than the deck's are left to the general grid.
class ProductList final : public Meter {
 public:
  void product(const Product& p) override { products.push_back(p); }
  std::vector<Product> products;
};

std::vector<Product> products_of(const std::vector<std::string>& decks, DeviceKind kind) {
  ProductList list;
  for (const std::string& file : decks) {
    const Deck deck = parse_deck(read_deck_files(file), {}, 0);
    const ParallelDeck& p = deck.parallel;
    const auto n_ranks = static_cast<int>(p.tensor * p.pipeline * p.context * std::max<std::int64_t>(1, p.data));
    const GridPoint here{grid_size(p, n_ranks), {}};
    meter_step(deck, Model(deck.model), here, kind, list);
  }
  return list.products;
}

void write(const Machine& machine, const std::string& file) {
  std::ofstream out(file);
  out << print_machine(machine);
  out.close();
  if (!out) throw Error(Exit::data, "cannot write " + file);
}

void measure_all(const Arguments& a, const MpiSession& session) {
  log().open(session.rank() == 0, LogLevel::info, "");
  Deck deck;
  deck.device.kind = a.device;
  const Job job = make_job(deck, session, nullptr);
  const bool cuda = job.kind == DeviceKind::cuda;
  measure::Options options;
  options.seconds = a.quick ? 0.001 : a.seconds;
  options.quick = a.quick;
  options.kind = job.kind;
  options.precisions = a.precisions;
  if (options.precisions.empty())
    options.precisions = cuda ? std::vector<std::string>{"bf16", "fp8"} : std::vector<std::string>{"fp32"};
  options.products = products_of(a.decks, job.kind);
  Machine machine;
  if (!a.base.empty()) machine = read_machine(a.base);
  const std::string device = job.backend->describe();
  machine.name = !a.name.empty() ? a.name : machine.name.empty() ? device : machine.name;
  if (machine.memory == 0) machine.memory = static_cast<double>(job.backend->memory_bytes());
  const std::int64_t gpus = cuda ? std::max(cuda_device_count(), session.local_size()) : session.local_size();
  machine.gpus_per_node = a.gpus_per_node > 0 ? a.gpus_per_node : std::max(machine.gpus_per_node, gpus);
  if (session.size() > 1) {
    options.between_nodes = session.local_size() < session.size();
    measure::measure_wires(job.grid->world(), *job.backend, options,
                           options.between_nodes ? machine.network : machine.node);
  }
  if (!a.wires_only) measure::measure_device(*job.backend, options, machine);
  measure::set_peaks(machine, known_peak(device));
  if (session.rank() == 0) write(machine, a.output);
  log().info("wrote " + a.output);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  try {
    arguments = parse_arguments(argc, argv);
  } catch (const Error& error) {
    std::fprintf(stderr, "measure: %s\n", error.what());
    return static_cast<int>(error.code);
  }
  if (arguments.help) return 0;
  const MpiSession session;
  try {
    measure_all(arguments, session);
  } catch (const SharedError& error) {
    session.end_together(static_cast<int>(error.code), error.what());
  } catch (const Error& error) {
    session.abort(static_cast<int>(error.code), error.what());
  } catch (const std::exception& error) {
    session.abort(static_cast<int>(Exit::rank), error.what());
  }
  return 0;
}
