#include "trireme/train/data_start.h"

#include "trireme/train/lr.h"
#include "trireme/train/start_up.h"

namespace trireme {

Deck settled_deck(const Deck& deck, const MpiSession& session, std::string& tokenizer) {
  Deck settled = deck;
  together(session, [&] {
    SettledData data = settle_data(deck.data, deck.model.vocab);
    settled.data = std::move(data.data);
    tokenizer = std::move(data.tokenizer);
  });
  return settled;
}

std::int64_t samples_of_run(const Deck& deck) {
  std::int64_t samples = 0;
  for (std::int64_t step = 0; step < deck.run.steps; ++step) {
    const std::int64_t next = global_batch(deck.batch, deck.model.sequence, samples);
    if (next == deck.batch.global) return samples + (deck.run.steps - step) * next;  // the ramp is over
    samples += next;
  }
  return samples;
}

std::vector<std::string> data_lines(const Deck& deck, const TokenSplit& data) {
  std::vector<std::string> lines{"data        training: " + data.training->describe()};
  if (deck.data.source != "mock") {
    const Sampler sampler(*data.training, deck.model.sequence, static_cast<std::uint64_t>(deck.run.seed));
    for (const std::string& line : describe_passes(sampler, samples_of_run(deck), deck.data.repeat))
      lines.push_back("            " + line);
  }
  lines.push_back("            validation: " + (data.validation ? data.validation->describe() : std::string("none")));
  if (data.test) lines.push_back("            test: " + data.test->describe());
  return lines;
}

}  // namespace trireme
