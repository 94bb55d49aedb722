#include "options.h"

#include <boost/program_options.hpp>
#include <sstream>
#include <thread>

#include "trireme/base/check.h"

namespace po = boost::program_options;
using trireme::Error;
using trireme::Exit;

namespace {

constexpr const char* k_usage =
    "Turns text into token files (PREFIX.bin, PREFIX.idx) that data.source = \"tokens\" and Megatron read.\n\n"
    "  preprocess tokenize INPUT... --output PREFIX [--tokenizer FILE_OR_FOLDER]\n"
    "  preprocess merge PREFIX... --output PREFIX\n"
    "  preprocess train-tokenizer INPUT... --output tokenizer.json [--vocab N]\n\n"
    "INPUT: JSONL (.jsonl, .json, .ndjson) or plain text; also .gz and .zst, patterns such as 'data/*.jsonl', - for\n"
    "standard input.\n";

template <class T>
T chosen(const std::string& option, const std::string& value,
         std::initializer_list<std::pair<const char*, T>> choices) {
  std::string names;
  for (const auto& [name, choice] : choices) {
    if (value == name) return choice;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(Exit::usage, "--" + option + " " + value + ": expected one of " + names);
}

po::options_description described(Options& o) {
  po::options_description all("Options");
  auto add = all.add_options();
  add("help,h", "print this text");
  add("output,o", po::value(&o.output), "where the result goes: a prefix, or the tokenizer.json");
  add("overwrite", po::bool_switch(&o.overwrite), "replace what is there");
  add("threads,j", po::value(&o.threads), "threads that work on text (default: one per core)");
  add("key", po::value(&o.key)->default_value(o.key), "JSONL: the key of the text");
  add("format", po::value<std::string>()->default_value("auto"), "auto (by the name of the file), jsonl, text");
  add("documents", po::value<std::string>()->default_value("file"),
      "plain text: a document is a file, a line or a paragraph (between empty lines)");
  add("malformed", po::value<std::string>()->default_value("stop"), "stop at a line that is no JSON, or skip it");
  add("tokenizer", po::value(&o.tokenizer)->default_value(o.tokenizer),
      "tokenize: byte, a tokenizer file or its folder");
  add("eod", po::value(&o.eod), "tokenize: the token behind each document (default: the tokenizer's)");
  add("specials", po::value<std::string>()->default_value("token"),
      "tokenize: text that spells a special token (\"<|endoftext|>\") becomes that token, or stays text");
  add("no-eod", "tokenize: nothing behind documents");
  add("bod", po::bool_switch(&o.with_bod), "tokenize: the tokenizer's token before each document");
  add("dtype", po::value(&o.dtype)->default_value(o.dtype),
      "tokenize: u8, u16, i32, i64; auto: u16 below 65500 tokens");
  add("vocab", po::value(&o.vocab)->default_value(o.vocab), "train-tokenizer: tokens in all");
  add("min-frequency", po::value(&o.min_frequency)->default_value(o.min_frequency),
      "train-tokenizer: of a merged pair");
  add("special", po::value(&o.special), "train-tokenizer: special tokens (default: <|endoftext|>)");
  add("style", po::value(&o.style)->default_value(o.style), "train-tokenizer: how words are cut: gpt2 or llama3");
  return all;
}

void check(const Options& o) {
  if (o.command != "tokenize" && o.command != "merge" && o.command != "train-tokenizer")
    throw Error(Exit::usage, "unknown command \"" + o.command + "\"; known are tokenize, merge, train-tokenizer");
  if (o.inputs.empty()) throw Error(Exit::usage, o.command + " needs something to read; preprocess --help shows how");
  if (o.output.empty()) throw Error(Exit::usage, o.command + " needs --output");
  if (o.threads < 0 || o.threads > 1024) throw Error(Exit::usage, "--threads takes 1 to 1024");
  if (!o.with_eod && !o.eod.empty()) throw Error(Exit::usage, "--eod and --no-eod contradict each other");
}

}  // namespace

Options read_options(int argc, char** argv) {
  Options o;
  po::options_description visible = described(o), all;
  all.add(visible).add_options()("words", po::value<std::vector<std::string>>(), "");
  po::positional_options_description positional;
  positional.add("words", -1);
  po::variables_map values;
  try {
    po::store(po::command_line_parser(argc, argv).options(all).positional(positional).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw Error(Exit::usage, std::string(error.what()) + "; preprocess --help shows the options");
  }
  if (values.count("help") > 0 || values.count("words") == 0) {
    std::ostringstream text;
    text << k_usage << "\n" << visible;
    o.command = "help";
    o.help = text.str();
    return o;
  }
  o.inputs = values["words"].as<std::vector<std::string>>();
  o.command = o.inputs.front();
  o.inputs.erase(o.inputs.begin());
  o.corpus.format = chosen<Format>("format", values["format"].as<std::string>(),
                                   {{"auto", Format::automatic}, {"jsonl", Format::jsonl}, {"text", Format::text}});
  o.corpus.documents =
      chosen<Documents>("documents", values["documents"].as<std::string>(),
                        {{"file", Documents::file}, {"line", Documents::line}, {"paragraph", Documents::paragraph}});
  o.malformed = chosen<Malformed>("malformed", values["malformed"].as<std::string>(),
                                  {{"stop", Malformed::stop}, {"skip", Malformed::skip}});
  o.specials = chosen<trireme::Spelled>("specials", values["specials"].as<std::string>(),
                                        {{"token", trireme::Spelled::token}, {"text", trireme::Spelled::text}});
  o.with_eod = values.count("no-eod") == 0;
  if (o.special.empty()) o.special = {"<|endoftext|>"};
  if (o.threads == 0) o.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  check(o);
  return o;
}
