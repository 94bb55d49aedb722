#pragma once
// Learns a byte-level BPE from text and writes it as a tokenizer.json that Hugging Face loads too. It reads no files.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class TokenizerTrainer {
 public:
  // style: how text is cut into words, "gpt2" or "llama3".
  explicit TokenizerTrainer(const std::string& style);
  ~TokenizerTrainer();
  TokenizerTrainer(TokenizerTrainer&&) noexcept;
  void add(std::string_view text);          // counts its words
  void add(const TokenizerTrainer& other);  // and those that another thread counted
  std::int64_t n_words() const;             // different ones
  struct Wanted {
    std::int64_t vocab;                // tokens in all; fewer where the text has too few pairs
    std::int64_t min_frequency;        // of a pair that becomes a token
    std::vector<std::string> special;  // first in the vocabulary
  };
  // The text of the tokenizer.json. Of pairs that are equally frequent the one with the smaller ids comes first.
  // progress(tokens so far) is called now and then.
  std::string train(const Wanted& wanted, const std::function<void(std::int64_t)>& progress) const;

 private:
  struct Words;
  std::unique_ptr<Words> words_;
};

}  // namespace trireme
