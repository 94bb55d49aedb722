// Rules between the keys of [checkpoint].

#include "contradictions.h"
#include "print.h"

namespace trireme {

namespace {

void needs_collective(const CheckpointDeck& c, const std::string& key, std::int64_t value, Contradictions& list) {
  if (c.transfer == "collective" || value == 0) return;
  list.push_back({{"checkpoint." + key, "checkpoint.transfer"},
                  setting(("checkpoint." + key).c_str(), value) + " has no effect with " +
                      setting("checkpoint.transfer", c.transfer) + ": there every rank writes its own blocks"});
}

}  // namespace

void check_checkpoint(const Deck& deck, Contradictions& list) {
  const CheckpointDeck& c = deck.checkpoint;
  needs_collective(c, "aggregators", c.aggregators, list);
  needs_collective(c, "aggregators_per_node", c.aggregators_per_node, list);
  if (c.transfer == "collective" && c.files > 1) {
    list.push_back({{"checkpoint.files", "checkpoint.transfer"},
                    setting("checkpoint.files", c.files) + " needs checkpoint.transfer = \"direct\", found " +
                        setting("checkpoint.transfer", c.transfer)});
  }
  if (c.keep == 0 && c.keep_every > 0) {
    list.push_back({{"checkpoint.keep_every", "checkpoint.keep"},
                    setting("checkpoint.keep_every", c.keep_every) +
                        " has no effect with checkpoint.keep = 0, which keeps all of them"});
  }
  for (const std::string& hint : c.hints) {
    const std::size_t equals = hint.find('=');
    if (equals != std::string::npos && equals > 0 && equals + 1 < hint.size()) continue;
    list.push_back({{"checkpoint.hints"},
                    setting("checkpoint.hints", hint) + ": expected \"name=value\", such as \"striping_factor=16\""});
  }
}

}  // namespace trireme
