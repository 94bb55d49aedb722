// inspect: looks into checkpoints and data. One process, no MPI; memory does not grow with the file.
#include <boost/program_options.hpp>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "commands.h"
#include "trireme/base/check.h"

namespace po = boost::program_options;
using namespace trireme;

namespace {

struct Command {
  const char* name;
  const char* words;
  std::size_t least, most;  // words behind the name
  int (*run)(const inspect::Words&, const inspect::Options&);
  const char* help;
};

constexpr std::size_t k_many = 1 << 20;
constexpr Command k_commands[] = {
    {"list", "FILE", 1, 1, inspect::list,
     "step, grid and every array: dtype, shape, bytes, layout (also: inspect FILE)"},
    {"stats", "FILE [ARRAY ...]", 1, k_many, inspect::stats,
     "minimum, maximum, mean, deviation, norm, zeros, not finite"},
    {"print", "FILE ARRAY [I,J,...]", 2, 3, inspect::print, "values; leading indices choose a part"},
    {"diff", "A B", 2, 2, inspect::diff, "norms of the differences, array by array; exit 1 when there are any"},
    {"verify", "FILE", 1, 1, inspect::verify, "recomputes every checksum; exit 3 when the file is damaged"},
    {"data", "PREFIX|TEXT|DECK.toml [SAMPLE ...]", 1, k_many, inspect::data,
     "samples as the model sees them, with documents and masks (the first three)"},
};

const Command* find(const std::string& name) {
  for (const Command& command : k_commands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

std::string help(const po::options_description& visible) {
  std::ostringstream text;
  text << "Looks into a checkpoint, or into data.\n\n";
  for (const Command& command : k_commands)
    text << "  inspect " << command.name << " " << command.words << "\n      " << command.help << "\n";
  text << "\n" << visible << "\nExit codes: 0 good, 1 files differ, 2 usage, 3 damaged or no checkpoint.\n";
  return text.str();
}

// "inspect --diff A B" and "inspect FILE" are the commands diff and list.
inspect::Words with_command(inspect::Words words, const po::variables_map& values) {
  for (const char* name : {"diff", "verify", "stats"}) {
    if (values.count(name) > 0) words.insert(words.begin(), name);
  }
  if (!words.empty() && find(words[0]) == nullptr && words.size() == 1) words.insert(words.begin(), "list");
  return words;
}

int run(int argc, char** argv) {
  po::options_description visible("Options"), all;
  inspect::Options options;
  visible.add_options()("help,h", "print this text")("json", po::bool_switch(&options.json), "one JSON object");
  visible.add_options()("count", po::value(&options.count), "print: how many values at most (32)");
  visible.add_options()("tokenizer", po::value(&options.tokenizer), "data: file or folder, to show text");
  visible.add_options()("sequence", po::value(&options.sequence), "data: positions of a sample without a deck (64)");
  visible.add_options()("diff", "the command diff")("verify", "the command verify")("stats", "the command stats");
  all.add(visible).add_options()("words", po::value<inspect::Words>(), "");
  po::positional_options_description positional;
  positional.add("words", -1);
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv).options(all).positional(positional).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw Error(Exit::usage, std::string(error.what()) + "; inspect --help shows the commands");
  }
  inspect::Words words;
  if (values.count("words") > 0) words = values["words"].as<inspect::Words>();
  if (values.count("help") > 0 || words.empty()) return std::cout << help(visible), 0;
  words = with_command(words, values);
  const Command* command = find(words[0]);
  if (command == nullptr)
    throw Error(Exit::usage, "there is no command \"" + words[0] + "\"; inspect --help shows the commands");
  words.erase(words.begin());
  if (words.size() < command->least || words.size() > command->most)
    throw Error(Exit::usage, std::string("usage: inspect ") + command->name + " " + command->words);
  return command->run(words, options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const Error& error) {
    std::fprintf(stderr, "inspect: %s\n", error.what());
    return static_cast<int>(error.code);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "inspect: %s\n", error.what());
    return static_cast<int>(Exit::failed);
  }
}
