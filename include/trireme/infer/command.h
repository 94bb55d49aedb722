#pragma once
// `trireme generate`: text in, text out, on a terminal or as JSON lines. It neither chooses the device nor the grid.

#include <optional>
#include <string>

#include "trireme/data/tokenizer.h"
#include "trireme/infer/generator.h"

namespace trireme {

struct GenerateRequest {
  std::string path;                   // checkpoint, run folder or Hugging Face folder
  std::optional<std::string> prompt;  // one text, streamed to the terminal
  std::string prompts, output;        // JSON lines with "prompt" in, and with "text" out (empty: standard output)
  std::string tokenizer;              // empty: the one that the weights name
  Spelled specials = Spelled::token;  // in the prompts
  std::int64_t batch = 8;             // texts at a time
  std::optional<std::int64_t>
      tokens;               // most new tokens of a text; absent: 128, or what learned positions leave room for
  GenerateOptions options;  // its tokens come from above
};
void check(const GenerateRequest& request);  // throws SharedError(Exit::usage) naming the option

struct GeneratePlace {
  Backend& backend;
  const ProcessGrid& grid;
  Communicator& control;
  DeviceKind kind;
  DType compute;
};
// Collective; rank 0 speaks.
void run_generate(const GenerateRequest& request, const Weights& weights, const GeneratePlace& place);

}  // namespace trireme
