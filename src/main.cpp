// The command line: trireme train | plan | verify | generate | deck. Everything else is in the library.
#include <boost/program_options.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/base/version.h"
#include "trireme/comm/mpi.h"
#include "trireme/deck/read.h"
#include "trireme/infer/command.h"
#include "trireme/train/commands.h"
#include "trireme/train/job.h"
#include "trireme/train/search.h"
#include "trireme/train/trainer.h"

namespace po = boost::program_options;
using namespace trireme;

namespace {

constexpr const char* k_usage =
    "Trireme trains GPT-style models on any grid of MPI ranks.\n\n"
    "  trireme train  DECK [--trace] [section.key=value ...]    under mpirun or srun: one rank per GPU, or CPU ranks\n"
    "  trireme plan   DECK --ranks N [section.key=value ...]    memory, traffic and time of a step, without MPI\n"
    "  trireme plan   DECK --ranks N --search [...]   the fastest layouts that fit, and why the others fail\n"
    "  trireme verify DECK [--steps K] [section.key=value ...]  this grid against one rank; exit 1 above the bound\n"
    "  trireme generate PATH --prompt TEXT [...]      a checkpoint, run or Hugging Face folder speaks\n"
    "  trireme deck   [DECK] [section.key=value ...]  the resolved deck; without DECK every key with its meaning\n\n"
    "Exit codes: 0 finished, 1 verify failed, 2 deck or usage, 3 data or checkpoint, 4 a rank failed, 5 numbers not\n"
    "finite, 75 stopped early after saving: start it again.\n";

struct Arguments {
  std::string command, deck;
  std::vector<std::string> overrides;
  int ranks = 0, steps = 5;
  GenerateRequest generate;
  struct {
    bool search = false, tensor_across_nodes = false, json = false;
    std::string machine;
    int best = 10;
  } plan;
};

void add_generate_options(po::options_description& options, GenerateRequest& r) {
  GenerateOptions& o = r.options;
  options.add_options()("prompt", po::value<std::string>(), "generate: the text to continue, streamed")(
      "prompts", po::value(&r.prompts), "generate: JSON lines with \"prompt\"; writes JSON lines with \"text\"")(
      "output", po::value(&r.output), "generate: where they go; default: standard output")(
      "tokens", po::value<std::int64_t>(), "generate: most new tokens of a text (128)")(
      "temperature", po::value(&o.sampling.temperature), "generate: 0 always takes the most probable token (1)")(
      "top-k", po::value(&o.sampling.top_k), "generate: only the k most probable tokens; 0: all (0)")(
      "top-p", po::value(&o.sampling.top_p), "generate: only the most probable tokens up to this sum (1)")(
      "seed", po::value(&o.sampling.seed), "generate: another seed, another text (1)")("batch", po::value(&r.batch),
                                                                                       "generate: texts at a time (8)")(
      "tokenizer", po::value(&r.tokenizer), "generate: file or folder of the tokenizer, or byte")(
      "specials", po::value<std::string>()->default_value("token"),
      "generate: what spells a special token in a prompt becomes that token, or stays text");
}

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  po::options_description visible("Options");
  visible.add_options()("help,h", "print this text")("version", "print the version");
  visible.add_options()("ranks", po::value<int>(), "plan: number of ranks")("steps", po::value<int>(),
                                                                            "verify: steps to compare");
  visible.add_options()("search", "plan: look for the fastest layouts")(
      "machine", po::value(&arguments.plan.machine), "plan: table of the machine, a name or a file (GPUs: h200)")(
      "best", po::value(&arguments.plan.best), "plan --search: layouts to list (10)")(
      "tensor-across-nodes", "plan --search: tensor parallelism may leave the node")("json", "plan --search: as JSON");
  visible.add_options()("trace", "train: trace a few steps (log.trace = true)");
  add_generate_options(visible, arguments.generate);
  po::options_description all;
  all.add(visible).add_options()("words", po::value<std::vector<std::string>>(), "");
  po::positional_options_description positional;
  positional.add("words", -1);
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv).options(all).positional(positional).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw SharedError(Exit::usage, std::string(error.what()) + "; trireme --help shows the commands");
  }
  std::vector<std::string> words;
  if (values.count("words") > 0) words = values["words"].as<std::vector<std::string>>();
  if (values.count("help") > 0 || (words.empty() && values.count("version") == 0)) {
    arguments.command = "help";
    std::ostringstream options;
    options << visible;
    arguments.deck = k_usage + ("\n" + options.str());
    return arguments;
  }
  if (values.count("version") > 0) {
    arguments.command = "version";
    return arguments;
  }
  arguments.command = words[0];
  for (std::size_t i = 1; i < words.size(); ++i) {
    const bool override_like = words[i].find('=') != std::string::npos;
    if (override_like || !arguments.deck.empty())
      arguments.overrides.push_back(words[i]);
    else
      arguments.deck = words[i];
  }
  if (values.count("trace") > 0 && arguments.command != "train")
    throw SharedError(Exit::usage, "--trace belongs to trireme train");
  if (values.count("trace") > 0) arguments.overrides.emplace_back("log.trace=true");
  if (values.count("prompt") > 0) arguments.generate.prompt = values["prompt"].as<std::string>();
  if (values.count("tokens") > 0) arguments.generate.tokens = values["tokens"].as<std::int64_t>();
  const auto specials = values["specials"].as<std::string>();
  if (specials != "token" && specials != "text")
    throw SharedError(Exit::usage, "--specials " + specials + ": expected one of token, text");
  arguments.generate.specials = specials == "token" ? Spelled::token : Spelled::text;
  arguments.generate.path = arguments.deck;
  if (values.count("ranks") > 0) arguments.ranks = values["ranks"].as<int>();
  arguments.plan.search = values.count("search") > 0;
  arguments.plan.json = values.count("json") > 0;
  arguments.plan.tensor_across_nodes = values.count("tensor-across-nodes") > 0;
  if (values.count("steps") > 0) arguments.steps = values["steps"].as<int>();
  return arguments;
}

int run_deck(const Arguments& arguments) {
  if (arguments.deck.empty() && arguments.overrides.empty()) {
    std::cout << print_reference();
    return 0;
  }
  const std::vector<DeckSource> sources =
      arguments.deck.empty() ? std::vector<DeckSource>{} : read_deck_files(arguments.deck);
  std::cout << print_deck(parse_deck(sources, arguments.overrides, 0));
  return 0;
}

// The table that was asked for; else that of H200s for a deck that would run on GPUs, when it can tell.
std::optional<Machine> machine_of(const Arguments& arguments, const Deck& deck) {
  std::error_code ignored;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
  const std::string& name = arguments.plan.machine;
  if (name.empty() && planned_kind(deck) == DeviceKind::cpu) return {};
  return read_machine(machine_file(name.empty() ? "h200" : name, machine_folders(program)));
}

int run_search(const Arguments& arguments, const Deck& deck) {
  const std::optional<Machine> machine = machine_of(arguments, deck);
  if (!machine)
    throw Error(Exit::usage,
                "trireme plan --search needs --machine FILE for a deck that runs on CPUs; tools/measure makes one");
  SearchSettings settings;
  settings.n_ranks = arguments.ranks;
  settings.kind = planned_kind(deck);
  if (arguments.plan.tensor_across_nodes) settings.tensor_across_nodes = TensorAcrossNodes::allowed;
  for (const std::string& word : arguments.overrides) settings.fixed.insert(word.substr(0, word.find('=')));
  const SearchResult result = search_layouts(deck, *machine, settings);
  std::cout << (arguments.plan.json ? search_json(result, *machine, settings, arguments.plan.best)
                                    : search_text(result, *machine, settings, arguments.plan.best));
  return static_cast<int>(result.layouts.empty() ? Exit::failed : Exit::finished);
}

int run_plan(const Arguments& arguments) {
  if (arguments.deck.empty() || arguments.ranks < 1) {
    throw SharedError(Exit::usage, "trireme plan needs a deck and --ranks N with N at least 1");
  }
  const int known_ranks = arguments.plan.search ? 0 : arguments.ranks;  // the search chooses the grid
  const Deck deck = parse_deck(read_deck_files(arguments.deck), arguments.overrides, known_ranks);
  if (arguments.plan.search) return run_search(arguments, deck);
  std::optional<Machine> machine = machine_of(arguments, deck);
  const std::string& precision = deck.precision.compute;
  if (machine && arguments.plan.machine.empty() && machine->gemm.count(precision) == 0 && precision != "fp16")
    machine.reset();
  std::cout << plan_text(deck, arguments.ranks, machine ? &*machine : nullptr);
  return 0;
}

// Rank 0 reads the files; all ranks parse the same text and so find the same errors.
Deck shared_deck(const Arguments& arguments, const MpiSession& session) {
  if (arguments.deck.empty())
    throw SharedError(Exit::usage, "trireme " + arguments.command + " needs a deck: trireme train DECK");
  std::string packed, problem;
  if (session.rank() == 0) {
    try {
      packed = pack(read_deck_files(arguments.deck));
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  problem = session.broadcast(problem);
  if (!problem.empty()) throw SharedError(Exit::usage, problem);
  packed = session.broadcast(packed);
  try {
    return parse_deck(unpack(packed), arguments.overrides, session.size());
  } catch (const Error& error) {
    throw SharedError(error.code, error.what());
  }
}

// Rank 0 looks what there is; all ranks parse the same text.
Weights shared_weights(const Arguments& arguments, const MpiSession& session) {
  check(arguments.generate);
  std::string packed, problem;
  if (session.rank() == 0) {
    try {
      packed = pack(find_weights(arguments.generate.path));
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  problem = session.broadcast(problem);
  if (!problem.empty()) throw SharedError(Exit::data, problem);
  packed = session.broadcast(packed);
  try {
    return weights_from(unpack(packed), arguments.overrides, session.size());
  } catch (const Error& error) {
    throw SharedError(error.code, error.what());
  }
}

Exit generate_text(const Arguments& arguments, const MpiSession& session) {
  const Weights weights = shared_weights(arguments, session);
  const Job job = make_job(weights.deck, session, nullptr);
  const GeneratePlace place{*job.backend, *job.grid, *job.control, job.kind,
                            dtype_from(weights.deck.precision.compute)};
  try {
    run_generate(arguments.generate, weights, place);
  } catch (const Error& error) {  // what the user asked for is the same on all ranks, files need not be
    if (error.code != Exit::usage && session.size() > 1) throw;
    throw SharedError(error.code, error.what());
  }
  return Exit::finished;
}

int run_parallel(const Arguments& arguments) {
  const MpiSession session;
  try {
    const std::string problem = launcher_problem(session.size());
    if (!problem.empty()) throw Error(Exit::usage, problem);
    if (arguments.command == "generate") return static_cast<int>(generate_text(arguments, session));
    const Deck deck = shared_deck(arguments, session);
    if (arguments.command == "verify") return static_cast<int>(verify(deck, session, arguments.steps));
    return static_cast<int>(Trainer(deck, session).run());
  } catch (const SharedError& error) {
    session.end_together(static_cast<int>(error.code), error.what());
  } catch (const Error& error) {
    session.abort(static_cast<int>(error.code), error.what());
  } catch (const std::exception& error) {
    session.abort(static_cast<int>(Exit::rank), error.what());
  }
}

int run(const Arguments& arguments) {
  if (arguments.command == "help") return std::cout << arguments.deck, 0;
  if (arguments.command == "version") return std::cout << "trireme " << version() << " (" << git_revision() << ")\n", 0;
  if (arguments.command == "deck") return run_deck(arguments);
  if (arguments.command == "plan") return run_plan(arguments);
  for (const char* parallel : {"train", "verify", "generate"})
    if (arguments.command == parallel) return run_parallel(arguments);
  throw Error(Exit::usage, "there is no command \"" + arguments.command + "\": train, plan, verify, generate or deck");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse_arguments(argc, argv));
  } catch (const Error& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return static_cast<int>(error.code);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trireme: %s\n", error.what());
    return static_cast<int>(Exit::failed);
  }
}
