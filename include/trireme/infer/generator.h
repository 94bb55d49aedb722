#pragma once
// Continues many prompts: each takes a free slot of the model, is read in passes, then all speak one token at a time.
// It knows token ids, not text, and prints nothing.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/infer/language_model.h"
#include "trireme/infer/sampling.h"

namespace trireme {

struct GenerateOptions {
  Sampling sampling;
  std::int64_t tokens = 128;        // most new tokens of a text
  std::optional<std::int64_t> end;  // a text is over with this token
};

enum class Ended : std::uint8_t { end_token, length };

struct Continuation {
  std::vector<std::int32_t> ids;  // without the end token
  Ended ended = Ended::length;
};

// prompts: at least one token each. on_token(prompt, id) as soon as it is known. The prompts and what follows must fit
// the capacity of the model.
std::vector<Continuation> generate(LanguageModel& model, const std::vector<std::vector<std::int32_t>>& prompts,
                                   const GenerateOptions& options,
                                   const std::function<void(std::size_t, std::int32_t)>& on_token);

}  // namespace trireme
