// reshard: rewrites a checkpoint for another grid, precision, padding or number of files. Under mpirun with any number
// of ranks, or alone.
#include <boost/program_options.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <sstream>

#include "stream.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/comm/mpi.h"
#include "trireme/deck/read.h"
#include "trireme/train/start_up.h"
#include "trireme/train/stop.h"

namespace po = boost::program_options;
using namespace trireme;
using reshard::Plan;

namespace {

constexpr const char* k_usage =
    "Rewrites a checkpoint for the grid that will read it.\n\n"
    "  reshard IN OUT [--tensor N] [--pipeline N] [--context N] [--data N] [options] [section.key=value ...]\n\n"
    "Any checkpoint loads on any grid; this one makes the blocks in the file those of the target, so that its ranks\n"
    "read long stretches. section.key=value changes the deck in the checkpoint: precision.compute=bf16,\n"
    "precision.master=remainder, model.vocab_multiple=256, checkpoint.files=8 (1 merges), checkpoint.stripe_mb=4.\n";

struct Arguments {
  std::string in, out;
  std::vector<std::string> overrides;
  Contents contents = Contents::all;
  double memory = 256;
  bool read_back = true;
};

po::options_description options_of(Arguments& arguments) {
  po::options_description options("Options");
  options.add_options()("help,h", "print this text");
  for (const char* axis : {"tensor", "pipeline", "context", "data"})
    options.add_options()(axis, po::value<int>(), (std::string("parallel.") + axis + " of the target").c_str());
  options.add_options()("dtype", po::value<std::string>(), "fp32, bf16, fp16: precision.compute of the target");
  options.add_options()("weights-only", "drop the optimizer state, for release");
  options.add_options()("files", po::value<int>(), "number of files of OUT");
  options.add_options()("memory", po::value(&arguments.memory), "MiB that a rank may hold of arrays (256)");
  options.add_options()("no-read-back", "do not read OUT again to verify it");
  return options;
}

// Words with '=' are settings of the deck, the others IN and OUT.
void sort_words(const std::vector<std::string>& words, Arguments& arguments) {
  std::vector<std::string> names;
  for (const std::string& word : words) {
    const std::size_t dot = word.find('.'), equals = word.find('=');
    const bool setting = equals != std::string::npos && dot < equals && word.find('/') > equals;
    (setting ? arguments.overrides : names).push_back(word);
  }
  if (names.size() != 2) throw SharedError(Exit::usage, "expected two files, IN and OUT; reshard --help explains");
  arguments.in = names[0];
  arguments.out = names[1];
}

// False: the help was asked for.
bool parse(int argc, char** argv, Arguments& arguments, std::string& help) {
  const po::options_description visible = options_of(arguments);
  po::options_description all;
  all.add(visible).add_options()("words", po::value<std::vector<std::string>>(), "");
  po::positional_options_description positional;
  positional.add("words", -1);
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv).options(all).positional(positional).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw SharedError(Exit::usage, std::string(error.what()) + "; reshard --help shows the options");
  }
  std::ostringstream text;
  text << k_usage << "\n" << visible;
  help = text.str();
  if (values.count("help") > 0) return false;
  for (const char* axis : {"tensor", "pipeline", "context", "data"}) {
    if (values.count(axis) > 0)
      arguments.overrides.push_back(std::string("parallel.") + axis + "=" + std::to_string(values[axis].as<int>()));
  }
  if (values.count("dtype") > 0)
    arguments.overrides.push_back("precision.compute=" + values["dtype"].as<std::string>());
  if (values.count("files") > 0)
    arguments.overrides.push_back("checkpoint.files=" + std::to_string(values["files"].as<int>()));
  if (values.count("weights-only") > 0) arguments.contents = Contents::weights;
  arguments.read_back = values.count("no-read-back") == 0;
  if (arguments.memory <= 0) throw SharedError(Exit::usage, "--memory is in MiB and above 0");
  sort_words(values.count("words") > 0 ? values["words"].as<std::vector<std::string>>() : std::vector<std::string>{},
             arguments);
  return true;
}

// The deck of the checkpoint with the settings of the target.
Deck target_deck(const CheckpointReader& in, const Arguments& arguments) {
  const auto text = in.attributes().find("deck");
  if (text == in.attributes().end())
    throw Error(Exit::data, arguments.in + " has no attribute deck: it was not written by trireme train");
  Deck deck = parse_deck({{arguments.in + " (deck)", text->second}}, arguments.overrides, 0);
  deck.parallel.data = std::max<std::int64_t>(1, deck.parallel.data);
  return deck;
}

Attributes attributes_for(const CheckpointReader& in, const Deck& deck, const Arguments& arguments) {
  Attributes attributes = in.attributes();
  for (const char* name : {"program", "files", "n_files"}) attributes.erase(name);
  attributes["deck"] = print_deck(deck);
  attributes["resharded_from"] = arguments.in;
  return attributes;
}

void sum_over_ranks(std::vector<std::uint64_t>& values, Communicator& control) {
  static_assert(sizeof(std::int64_t) == sizeof(std::uint64_t));
  if (values.empty()) return;
  // The sum wraps in the same way whatever the sign.
  control.all_reduce(Tensor(reinterpret_cast<std::byte*>(values.data()), DType::i64, {std::ssize(values)}),
                     Reduce::sum);
}

class Progress {
 public:
  Progress(double total, int n_ranks) : total_(total / n_ranks), start_(wall_seconds()) {}
  void operator()(double bytes) {
    done_ += bytes;
    const double now = wall_seconds();
    if (now - shown_ < 0.2) return;
    shown_ = now;
    const double part = std::min(1.0, done_ / total_);
    const auto filled = static_cast<std::size_t>(part * 30);
    log().progress(format("[%s%s] %3.0f %%  %s/s of rank 0  ETA %s", std::string(filled, '#').c_str(),
                          std::string(30 - filled, '.').c_str(), 100 * part, bytes_text(done_ / (now - start_)).c_str(),
                          time_text((now - start_) * (1 / std::max(part, 1e-9) - 1)).c_str()));
  }

 private:
  double total_, start_, done_ = 0, shown_ = 0;
};

double bytes_of(const Plan& plan) {
  double bytes = 0;
  for (const Stored& array : plan.targets)
    bytes += static_cast<double>(array.global.count()) * static_cast<double>(size_of(array.dtype));
  return bytes;
}

void require_new(const MpiSession& session, const Arguments& arguments) {
  on_rank_0(session, [&] {
    if (!std::filesystem::exists(arguments.out)) return;
    throw Error(Exit::usage, arguments.out + " exists and is not overwritten: remove it or choose another name");
  });
}

void read_back(const Arguments& arguments, const reshard::Share& share, Communicator& control) {
  CheckpointReader out(arguments.out, control);
  std::vector<std::uint64_t> sums;
  agree(control, [&] { sums = sums_of(out, share); });
  sum_over_ranks(sums, control);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const ArrayInfo& array = out.arrays()[i];
    if (checksum_text(sums[i]) != array.checksum)
      throw SharedError(Exit::data, arguments.out + ": " + array.path + " does not read back as it was written");
  }
}

void run(const MpiSession& session, const Arguments& arguments) {
  const double start = wall_seconds();
  const auto host = make_cpu_backend(1);
  const auto control = session.world(*host, Memory::host);
  log().open(session.rank() == 0, LogLevel::info, "");
  require_new(session, arguments);
  CheckpointReader in(arguments.in, *control);
  Deck deck;
  Plan plan;
  agree(*control, [&] {
    deck = target_deck(in, arguments);
    plan = reshard::make_plan(in, deck, arguments.contents);
    if (deck.checkpoint.blocks == "none") {
      for (Stored& array : plan.targets) array.chunk = {};
    }
  });
  const reshard::Share share{session.rank(), session.size(), static_cast<std::int64_t>(arguments.memory * 1048576)};
  CheckpointWriter out(arguments.out, plan.targets, attributes_for(in, deck, arguments), *control,
                       options_from(deck.checkpoint));
  reshard::InputSums sums;
  Progress progress(bytes_of(plan), session.size());
  agree(*control, [&] { sums = stream(in, out, plan, share, std::ref(progress)); });
  sum_over_ranks(sums.source, *control);
  sum_over_ranks(sums.second, *control);
  agree(*control, [&] { require_good_input(in, arguments.in, plan, sums); });
  out.commit();
  const double written = wall_seconds() - start;
  if (arguments.read_back) read_back(arguments, share, *control);
  log().info(
      format("%s: %zu arrays, %s written in %.2f s (%s/s)%s", arguments.out.c_str(), plan.targets.size(),
             bytes_text(bytes_of(plan)).c_str(), written, bytes_text(bytes_of(plan) / written).c_str(),
             arguments.read_back ? format(", verified in %.2f s", wall_seconds() - start - written).c_str() : ""));
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  std::string help;
  try {
    if (!parse(argc, argv, arguments, help)) return std::cout << help, 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "reshard: %s\n", error.what());
    return static_cast<int>(error.code);
  }
  const MpiSession session;
  try {
    run(session, arguments);
  } catch (const Error& error) {  // the same on every rank, but for a connection that is lost
    if (error.code == Exit::rank) session.abort(static_cast<int>(error.code), error.what());
    session.end_together(static_cast<int>(error.code), error.what());
  } catch (const std::exception& error) {
    session.abort(static_cast<int>(Exit::failed), error.what());
  }
  return 0;
}
