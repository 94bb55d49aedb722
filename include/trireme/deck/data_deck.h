#pragma once
// Deck section [data]: what to learn from.

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/deck/field.h"

namespace trireme {

struct DataDeck {
  std::string source = "text", tokenizer, dtype = "auto", repeat = "announce";
  std::vector<std::string> paths, validation_paths, test_paths;
  std::vector<double> weights;
  double validation_fraction = 0.05, test_fraction = 0;
  std::int64_t eod = -1;
  bool mask_eod = false, mask_documents = false, reset_positions = false, accept_change = false;
  template <class V>
  void describe(V& v) {
    v.field("source", source,
            "text: files of text, read through data.tokenizer; tokens: .bin files; mock: random tokens for benchmarks",
            one_of({"text", "tokens", "mock"}));
    v.field(
        "tokenizer", tokenizer,
        "byte, a tokenizer file or the folder of a Hugging Face model; empty: byte for text, that of PREFIX.json for "
        "tokens (which need none)",
        any<std::string>());
    v.field("paths", paths, "files to train on, in order; relative to the deck that states them",
            any<std::vector<std::string>>());
    v.field("weights", weights,
            "part of each of data.paths in the samples, in any unit; empty: one corpus, files after each other",
            any<std::vector<double>>());
    v.field("repeat", repeat, "when the run passes over a corpus more than once: announce it, or refuse to start",
            one_of({"announce", "refuse"}));
    v.field("validation_paths", validation_paths,
            "files for the validation loss; empty: the end of data.paths is held out", any<std::vector<std::string>>());
    v.field("validation_fraction", validation_fraction,
            "part of data.paths held out when there are no validation_paths", between(0.0, 0.5));
    v.field("test_paths", test_paths, "files for the loss after the last step; empty: data.test_fraction of data.paths",
            any<std::vector<std::string>>());
    v.field("test_fraction", test_fraction,
            "part of data.paths behind the validation part, held out for the loss after the last step",
            between(0.0, 0.5));
    v.field("dtype", dtype,
            "element of a raw .bin file; auto: from the .idx file beside it, else u16 below 65500 tokens",
            one_of({"auto", "u8", "u16", "i32"}));
    v.field("eod", eod, "id of the end-of-document token; -1: that of data.tokenizer, if any",
            at_least<std::int64_t>(-1));
    v.field("mask_eod", mask_eod, "no loss where the input token is the end-of-document token", any<bool>());
    v.field("mask_documents", mask_documents,
            "a token attends only to its own document; where documents begin the data say (.idx, files, data.eod)",
            any<bool>());
    v.field("reset_positions", reset_positions, "positions count from the beginning of the document", any<bool>());
    v.field("accept_change", accept_change,
            "resume although the data are not those the checkpoint was trained on; the position is kept", any<bool>());
  }
};

}  // namespace trireme
