#pragma once
// The command line of preprocess; it does no work.

#include <string>
#include <vector>

#include "corpus.h"
#include "trireme/data/tokenizer.h"

enum class Malformed { stop, skip };

struct Options {
  std::string command;  // tokenize, merge, train-tokenizer, help
  std::vector<std::string> inputs;
  std::string output, tokenizer = "byte", key = "text", dtype = "auto", eod, style = "gpt2";
  std::vector<std::string> special;
  CorpusOptions corpus;
  Malformed malformed = Malformed::stop;
  trireme::Spelled specials = trireme::Spelled::token;
  bool with_eod = true, with_bod = false, overwrite = false;
  int threads = 0;
  std::int64_t vocab = 32768, min_frequency = 2;
  std::string help;
};

Options read_options(int argc, char** argv);  // throws Error(Exit::usage)
