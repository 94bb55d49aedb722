#include "trireme/train/resume.h"

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/deck/read.h"
#include "trireme/train/start_up.h"

namespace trireme {

namespace {

std::optional<DType> masters_in(const std::string& path) {
  for (const ArrayInfo& array : list_arrays(path)) {
    if (array.path.starts_with("/master/")) return array.dtype;
  }
  return std::nullopt;
}

}  // namespace

CheckpointHead read_head(const MpiSession& session, const std::string& path) {
  CheckpointHead head;
  std::string masters;
  on_rank_0(session, [&] {
    head.attributes = read_attributes(path);
    head.masters = masters_in(path);
    if (head.masters) masters = std::string(1, static_cast<char>('a' + static_cast<int>(*head.masters)));
  });
  head.attributes = unpack_attributes(session.broadcast(pack(head.attributes)));
  masters = session.broadcast(masters);
  if (!masters.empty()) head.masters = static_cast<DType>(masters[0] - 'a');
  return head;
}

void check_data(const Deck& deck, const std::string& fingerprint, const std::string& tokenizer,
                const Attributes& attributes, const std::string& path) {
  const auto known = attributes.find("tokenizer");
  const bool other = known != attributes.end() && !tokenizer.empty() && known->second != tokenizer;
  if (other && !deck.data.accept_change) {
    throw SharedError(Exit::data, path + " was trained with another tokenizer (" + known->second + ", now " +
                                      tokenizer +
                                      "): restore it, or set data.accept_change = true if its ids mean the same");
  }
  const auto data = attributes.find("data");
  if (data == attributes.end() || data->second == fingerprint || deck.data.accept_change) return;
  throw SharedError(Exit::data, path + " was trained on other data (fingerprint " + data->second + ", now " +
                                    fingerprint +
                                    "): restore data.paths, or set data.accept_change = true to go on at the same "
                                    "position, or run.weights_only = true to start anew from its weights");
}

void check_model(const Deck& deck, const Attributes& attributes, const std::string& path) {
  const auto text = attributes.find("deck");
  if (text == attributes.end()) return;
  const Deck there = parse_deck({{path + " (deck)", text->second}}, {}, 0);
  const std::vector<std::string> sections = {"model", "precision"};
  std::string fatal;
  for (const std::string& difference : differences(deck, there, sections)) {
    const std::string key = difference.substr(0, difference.find(':'));
    if (changes_the_model(key))
      fatal += "\n  " + difference;
    else
      log().warn("resuming with another setting: " + difference);
  }
  if (!fatal.empty())
    throw SharedError(Exit::data, path + " holds another model (here: this deck, there: the checkpoint):" + fatal);
}

}  // namespace trireme
