// convert import HF_DIR CKPT [--check] | convert export CKPT HF_DIR [--dtype T] [--shard-gb N] [--like HF_DIR]
// [--check]
#include <boost/program_options.hpp>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "check.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/deck/read.h"
#include "trireme/io/hf_convert.h"

namespace po = boost::program_options;
using namespace trireme;

namespace {

constexpr const char* k_usage =
    "Checkpoints of Trireme from Hugging Face folders, and back: GPT-2, GPT-NeoX, Llama, Mistral, Qwen 2 and 3.\n\n"
    "  convert import HF_DIR CKPT.h5 [--check]    also writes CKPT.toml, a deck to train on with\n"
    "  convert export CKPT.h5 HF_DIR [--dtype bf16|fp16|fp32] [--shard-gb N] [--like HF_DIR] [--check]\n\n";

struct Arguments {
  std::string command, from, to, dtype, like;
  double shard_gb = 5;
  bool check = false, help = false;
};

Arguments parse_arguments(int argc, char** argv) {
  Arguments arguments;
  std::vector<std::string> words;
  po::options_description visible("Options");
  visible.add_options()("help,h", "print this text")("check", po::bool_switch(&arguments.check),
                                                     "pass a probe through both; exit 1 when they differ")(
      "dtype", po::value(&arguments.dtype), "export: element type; default: as stored. fp32 takes the masters")(
      "shard-gb", po::value(&arguments.shard_gb), "export: largest safetensors file (5)")(
      "like", po::value(&arguments.like), "export: copy tokenizer files and token ids of this Hugging Face folder");
  po::options_description all;
  all.add(visible).add_options()("words", po::value(&words), "");
  po::positional_options_description positional;
  positional.add("words", -1);
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv).options(all).positional(positional).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw Error(Exit::usage, std::string(error.what()) + "; convert --help shows what there is");
  }
  arguments.help = values.count("help") > 0;
  if (arguments.help) std::cout << k_usage << visible;
  if (arguments.help) return arguments;
  const bool known = words.size() == 3 && (words[0] == "import" || words[0] == "export");
  if (!known) throw Error(Exit::usage, "expected: convert import HF_DIR CKPT.h5, or convert export CKPT.h5 HF_DIR");
  arguments.command = words[0];
  arguments.from = words[1];
  arguments.to = words[2];
  return arguments;
}

// Trailing slashes would make hidden files of names derived from it.
std::string without_end(std::string path, const std::string& end) {
  while (path.size() > end.size() && path.ends_with(end)) path.resize(path.size() - end.size());
  return path;
}

// A deck that lacks only the data: what a run that starts from these weights states.
void write_deck(const std::string& path, const std::string& checkpoint, const Imported& imported) {
  Deck deck = imported.deck;
  deck.data = DataDeck{};
  deck.data.source = "tokens";
  deck.data.eod = imported.deck.data.eod;
  const std::size_t slash = checkpoint.rfind('/');
  deck.run = RunDeck{};
  deck.run.name = imported.hf.type + "_tuned";
  deck.run.resume = checkpoint;
  deck.run.weights_only = true;
  deck.lr = LrDeck{};
  deck.lr.max = 1e-5;
  deck.lr.min = 1e-6;
  std::ofstream out(path);
  out << "# Goes on training from " << checkpoint.substr(slash == std::string::npos ? 0 : slash + 1)
      << ", imported by convert. State data.paths (token files made with the model's\n"
         "# tokenizer), run.steps and the batch; model.sequence may be shorter where positions are rotary.\n\n"
      << print_changes(deck);
  out.close();
  if (!out) throw Error(Exit::data, path + " cannot be written");
}

int run_import(const Arguments& a) {
  const std::string checkpoint = a.to.ends_with(".h5") ? a.to : a.to + ".h5";
  const Imported imported = import_hf(without_end(a.from, "/"), checkpoint);
  const std::string deck = without_end(checkpoint, ".h5") + ".toml";
  write_deck(deck, checkpoint, imported);
  std::printf("%s: %s, %s parameters in %s\n%s: a deck to train on from there; state its data\n", checkpoint.c_str(),
              imported.hf.type.c_str(), count_text(static_cast<double>(imported.n_elements)).c_str(),
              name_of(imported.dtype), deck.c_str());
  for (const std::string& note : imported.hf.notes) std::printf("note: %s\n", note.c_str());
  std::fflush(stdout);
  return !a.check || check_conversion(checkpoint, a.from) ? 0 : 1;
}

DType dtype_of(const std::string& name) {
  if (name == "fp32") return DType::f32;
  if (name == "bf16") return DType::bf16;
  if (name == "fp16") return DType::f16;
  throw Error(Exit::usage, "--dtype = " + name + ", expected bf16, fp16 or fp32");
}

int run_export(const Arguments& a) {
  if (!(a.shard_gb > 0))
    throw Error(Exit::usage, "--shard-gb = " + std::to_string(a.shard_gb) + ", expected more than 0");
  ExportOptions options;
  if (!a.dtype.empty()) options.dtype = dtype_of(a.dtype);
  options.piece_bytes = static_cast<std::int64_t>(a.shard_gb * 1e9);
  options.like = a.like;
  const std::string folder = without_end(a.to, "/");
  const Exported exported = export_hf(a.from, folder, options);
  std::printf("%s: %s in %s, %d safetensors file%s\n", folder.c_str(), exported.hf.type.c_str(),
              name_of(exported.dtype), exported.n_files, exported.n_files == 1 ? "" : "s");
  std::fflush(stdout);
  return !a.check || check_conversion(a.from, folder) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse_arguments(argc, argv);
    if (arguments.help) return 0;
    return arguments.command == "import" ? run_import(arguments) : run_export(arguments);
  } catch (const Error& error) {
    std::fprintf(stderr, "convert: %s\n", error.what());
    return static_cast<int>(error.code);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "convert: %s\n", error.what());
    return static_cast<int>(Exit::failed);
  }
}
