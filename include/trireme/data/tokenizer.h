#pragma once
// Text to token ids and back, for every kind of tokenizer file. It does not read corpora, does not write token files
// and adds no tokens of its own: where documents begin and end is the caller's business.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// What text that spells a special token ("<|endoftext|>") becomes: that token, as in Hugging Face tokenizers, or what
// its characters are, as with their encode_special_tokens and tiktoken's encode_ordinary. Added tokens that the file
// does not call special are found in both.
enum class Spelled : std::uint8_t { token, text };

// Text that is not valid UTF-8 is read with U+FFFD for every ill-formed part, as Python's
// bytes.decode(errors="replace") does; only the byte tokenizer keeps such bytes. Byte and
// SentencePiece tokenizers never read special tokens from text.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocab_size() const = 0;  // the largest id + 1
  // Adds the ids of `text` to `ids`. Safe from several threads.
  virtual void append(std::string_view text, Spelled specials, std::vector<std::int32_t>& ids) const = 0;
  // The bytes that token `id` stands for inside a text: a character may be spread over several tokens. Special tokens
  // are spelled out; ids without a token (holes, padding of the vocabulary) are empty.
  virtual std::string_view piece(std::int32_t id) const = 0;
  virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;  // by spelling: "<|endoftext|>"
  // What the files beside the tokenizer name, else a token known by its spelling; none for a tokenizer without one.
  virtual std::optional<std::int32_t> end_of_document() const = 0;
  virtual std::optional<std::int32_t> begin_of_document() const = 0;  // where the model wants one: Llama, Mistral
  virtual bool drops_first_space() const = 0;   // decoding removes the space that encoding puts before the first word
  virtual std::string describe() const = 0;     // "byte-level BPE, 50257 tokens (vocab.json, merges.txt)"
  virtual std::string fingerprint() const = 0;  // of the contents of its files: another tokenizer, another fingerprint

  std::vector<std::int32_t> encode(std::string_view text) const;  // with Spelled::token
  // decode(encode(x)) = x for all valid UTF-8 with byte-level tokenizers. Ids cut inside a character give its bytes.
  std::string decode(std::span<const std::int32_t> ids) const;
};

// Decoding token by token, for terminals: a character that is not complete yet is withheld, bytes that cannot become
// one are U+FFFD.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  std::string push(std::int32_t id);
  std::string finish();  // what is still withheld, as U+FFFD; the decoder can be used for another text

 private:
  const Tokenizer& tokenizer_;
  std::string withheld_;
  bool first_ = true;
};

// "byte" (256 bytes and end-of-document 256), a file, or a folder that holds one: tokenizer.json; vocab.json with
// merges.txt or encoder.json with vocab.bpe (GPT-2); *.tiktoken or tokenizer.model (tiktoken, SentencePiece). Throws
// Error(Exit::data) for files that are missing, damaged or use a part that is not known, which is named. `key` is what
// named the path, for messages: "data.tokenizer".
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path, const std::string& key);

}  // namespace trireme
