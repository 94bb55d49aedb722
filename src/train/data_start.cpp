#include "trireme/train/data_start.h"

#include "trireme/data/token_outline.h"
#include "trireme/train/lr.h"
#include "trireme/train/start_up.h"

namespace trireme {

Deck settled_deck(const Deck& deck, const MpiSession& session, std::string& tokenizer) {
  Deck settled = deck;
  on_rank_0(session, [&] {
    const SettledData data = settle_data(deck.data, deck.model.vocab);
    settled.data.eod = data.data.eod;
    tokenizer = data.tokenizer;
  });
  settled.data.eod = std::stoll(session.broadcast(std::to_string(settled.data.eod)));
  tokenizer = session.broadcast(tokenizer);
  return settled;
}

bool reads_tokens(const Deck& deck, const GridPoint& here) {
  const bool follows_documents = deck.data.mask_documents || deck.data.reset_positions;
  return follows_documents || here.at(Axis::pp) == 0 || here.at(Axis::pp) == here.n(Axis::pp) - 1;
}

TokenSplit open_data(const Deck& deck, const GridPoint& here, const MpiSession& session) {
  const bool reads = reads_tokens(deck, here);
  TokenSplit data;
  together(session, [&] {
    if (!reads) return;
    data = open_tokens(deck.data, deck.model.vocab, deck.model.sequence, static_cast<std::uint64_t>(deck.run.seed));
  });
  if (!session.any(!reads)) return data;
  std::string outline;
  on_rank_0(session, [&] { outline = outline_of(data); });
  outline = session.broadcast(outline);
  return reads ? std::move(data) : split_from(outline);
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
