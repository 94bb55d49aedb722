#include "trireme/infer/generator.h"

#include <algorithm>

#include "trireme/base/check.h"

namespace trireme {

namespace {

// The prompt that a slot works on.
struct Speaker {
  std::int64_t slot = 0;
  std::size_t prompt = 0;
  bool busy = false;
  std::int32_t next = 0;  // chosen, but not yet passed through the model
};

class Conversation {
 public:
  Conversation(LanguageModel& model, const std::vector<std::vector<std::int32_t>>& prompts,
               const GenerateOptions& options, const std::function<void(std::size_t, std::int32_t)>& on_token)
      : model_(model), prompts_(prompts), options_(options), on_token_(on_token), results_(prompts.size()) {
    for (std::int64_t slot = 0; slot < model.memory().slots; ++slot) speakers_.push_back({slot, 0, false, 0});
  }

  std::vector<Continuation> run() {
    while (true) {
      for (Speaker& speaker : speakers_) {
        while (!speaker.busy && waiting_ < prompts_.size()) begin(speaker);
      }
      if (!speak()) return std::move(results_);
    }
  }

 private:
  // Reads the prompt; its last token gives the first new one.
  void begin(Speaker& speaker) {
    speaker.prompt = waiting_++;
    speaker.busy = true;
    const std::vector<std::int32_t>& prompt = prompts_[speaker.prompt];
    require(!prompt.empty(), "a prompt has at least one token");
    model_.forget(speaker.slot);
    const std::vector<std::int64_t> slot{speaker.slot};
    std::vector<double> logits;
    for (std::size_t first = 0; first < prompt.size();) {
      const std::size_t n = std::min(prompt.size() - first, static_cast<std::size_t>(model_.memory().pass));
      logits = model_.pass(slot, std::span(prompt).subspan(first, n), LogitRows::last, Cache::used);
      first += n;
    }
    if (options_.tokens == 0) {
      speaker.busy = false;
      return;
    }
    take(speaker, logits);
  }

  // One token for every busy slot; false when none is busy.
  bool speak() {
    std::vector<std::int64_t> slots;
    std::vector<std::int32_t> ids;
    std::vector<Speaker*> busy;
    for (Speaker& speaker : speakers_) {
      if (!speaker.busy) continue;
      slots.push_back(speaker.slot);
      ids.push_back(speaker.next);
      busy.push_back(&speaker);
    }
    if (busy.empty()) return false;
    const std::vector<double> logits = model_.pass(slots, ids, LogitRows::last, Cache::used);
    const auto vocab = static_cast<std::size_t>(model_.vocab());
    for (std::size_t i = 0; i < busy.size(); ++i) take(*busy[i], std::span(logits).subspan(i * vocab, vocab));
    return true;
  }

  void take(Speaker& speaker, std::span<const double> logits) {
    Continuation& result = results_[speaker.prompt];
    const double u = uniform_of(options_.sampling, prompts_[speaker.prompt], std::ssize(result.ids));
    speaker.next = choose(logits, options_.sampling, u);
    if (speaker.next == options_.end) {
      result.ended = Ended::end_token;
      speaker.busy = false;
      return;
    }
    result.ids.push_back(speaker.next);
    on_token_(speaker.prompt, speaker.next);
    speaker.busy = std::ssize(result.ids) < options_.tokens;
  }

  LanguageModel& model_;
  const std::vector<std::vector<std::int32_t>>& prompts_;
  const GenerateOptions& options_;
  const std::function<void(std::size_t, std::int32_t)>& on_token_;
  std::vector<Continuation> results_;
  std::vector<Speaker> speakers_;
  std::size_t waiting_ = 0;
};

}  // namespace

std::vector<Continuation> generate(LanguageModel& model, const std::vector<std::vector<std::int32_t>>& prompts,
                                   const GenerateOptions& options,
                                   const std::function<void(std::size_t, std::int32_t)>& on_token) {
  return Conversation(model, prompts, options, on_token).run();
}

}  // namespace trireme
