#include "file_source.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>

#include "input_file.h"
#include "megatron_index.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

enum class Kind : std::uint8_t { text, tokens };

struct Part {
  InputFile file;
  Element element;
  std::optional<MegatronIndex> index;
  std::int64_t first;     // index of its first token among all
  std::int64_t n_stored;  // tokens in the file; a text file has one more, the end-of-document token
};

constexpr std::size_t k_chunk_bytes = 16384;

template <class T>
void widen(const std::byte* bytes, std::span<std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    const bool fits = static_cast<std::int64_t>(value) == static_cast<std::int32_t>(value);
    tokens[i] = fits ? static_cast<std::int32_t>(value) : -1;  // an i64 that is no id of any vocabulary
  }
}

void decode(Element element, const std::byte* bytes, std::span<std::int32_t> tokens) {
  switch (element) {
    case Element::u8:
      return widen<std::uint8_t>(bytes, tokens);
    case Element::i8:
      return widen<std::int8_t>(bytes, tokens);
    case Element::u16:
      return widen<std::uint16_t>(bytes, tokens);
    case Element::i16:
      return widen<std::int16_t>(bytes, tokens);
    case Element::i32:
      return widen<std::int32_t>(bytes, tokens);
    case Element::i64:
      return widen<std::int64_t>(bytes, tokens);
  }
}

void refuse_nul(const std::string& path, std::int64_t offset, std::span<const std::byte> bytes) {
  const void* found = std::memchr(bytes.data(), 0, bytes.size());
  if (found == nullptr) return;
  const std::int64_t place = offset + (static_cast<const std::byte*>(found) - bytes.data());
  throw Error(Exit::data, path + ": byte " + std::to_string(place) +
                              " is NUL, so this is not text; for files of token ids set data.source = \"tokens\"");
}

class FileSource final : public TokenSource {
 public:
  FileSource(Kind kind, std::vector<Part> parts, std::int64_t eod, std::int64_t vocab)
      : kind_(kind), parts_(std::move(parts)), eod_(eod), vocab_(vocab) {
    for (Part& part : parts_) {
      part.first = n_tokens_;
      n_tokens_ += stored_and_eod(part);
    }
  }

  std::int64_t n_tokens() const override { return n_tokens_; }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override;
  std::vector<std::int64_t> document_starts(std::int64_t first, std::int64_t count) const override;
  std::string describe() const override;
  std::string fingerprint() const override;

 private:
  const Part& part_of(std::int64_t token) const;
  std::vector<std::int64_t> starts_in(const Part& part, std::int64_t first, std::int64_t count) const;
  std::int64_t stored_and_eod(const Part& part) const { return part.n_stored + (kind_ == Kind::text ? 1 : 0); }
  void read_part(const Part& part, std::int64_t first, std::span<std::int32_t> tokens) const;
  void check_ids(const Part& part, std::int64_t first, std::span<const std::int32_t> tokens) const;

  Kind kind_;
  std::vector<Part> parts_;
  std::int64_t eod_;  // -1: token files without one
  std::int64_t vocab_, n_tokens_ = 0;
};

const Part& FileSource::part_of(std::int64_t token) const {
  const auto behind =
      std::upper_bound(parts_.begin(), parts_.end(), token, [](std::int64_t i, const Part& p) { return i < p.first; });
  return *(behind - 1);
}

void FileSource::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  require(first >= 0 && first + static_cast<std::int64_t>(tokens.size()) <= n_tokens_,
          "read of tokens outside the source");
  for (const Part* part = &part_of(first); !tokens.empty(); ++part) {
    const std::int64_t inside = first - part->first;
    const std::int64_t here =
        std::min<std::int64_t>(stored_and_eod(*part) - inside, static_cast<std::int64_t>(tokens.size()));
    const std::int64_t stored = std::min(here, part->n_stored - inside);
    read_part(*part, inside, tokens.first(static_cast<std::size_t>(stored)));
    if (stored < here) tokens[static_cast<std::size_t>(stored)] = static_cast<std::int32_t>(eod_);
    tokens = tokens.subspan(static_cast<std::size_t>(here));
    first += here;
  }
}

void FileSource::read_part(const Part& part, std::int64_t first, std::span<std::int32_t> tokens) const {
  std::array<std::byte, k_chunk_bytes> chunk;
  const auto size = static_cast<std::size_t>(size_of(part.element));
  while (!tokens.empty()) {
    const std::size_t count = std::min(tokens.size(), k_chunk_bytes / size);
    const std::int64_t offset = first * static_cast<std::int64_t>(size);
    const std::span<std::byte> bytes(chunk.data(), count * size);
    part.file.read(offset, bytes);
    if (kind_ == Kind::text) refuse_nul(part.file.path(), offset, bytes);
    decode(part.element, chunk.data(), tokens.first(count));
    check_ids(part, first, tokens.first(count));
    tokens = tokens.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

void FileSource::check_ids(const Part& part, std::int64_t first, std::span<const std::int32_t> tokens) const {
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t id) { return id < 0 || id >= vocab_; });
  if (bad == tokens.end()) return;
  const std::string id = *bad < 0 ? "negative or beyond 32 bits" : std::to_string(*bad);
  throw Error(Exit::data, part.file.path() + ": token " + std::to_string(first + (bad - tokens.begin())) +
                              " (read as " + name_of(part.element) + ") is " + id + ", but model.vocab = " +
                              std::to_string(vocab_) + "; check data.dtype and the tokenizer that wrote the file");
}

std::vector<std::int64_t> FileSource::document_starts(std::int64_t first, std::int64_t count) const {
  std::vector<std::int64_t> starts;
  for (const Part* part = &part_of(first); count > 0; ++part) {
    const std::int64_t here = std::min(stored_and_eod(*part) - (first - part->first), count);
    for (const std::int64_t start : starts_in(*part, first - part->first, here)) starts.push_back(part->first + start);
    first += here;
    count -= here;
  }
  return starts;
}

// The same of one part, by its own numbers.
std::vector<std::int64_t> FileSource::starts_in(const Part& part, std::int64_t first, std::int64_t count) const {
  if (part.index) return part.index->document_starts(first, count);
  std::vector<std::int64_t> starts;
  if (first == 0) starts.push_back(0);
  if (kind_ == Kind::text || eod_ < 0) return starts;
  const std::int64_t before = std::max<std::int64_t>(first - 1, 0);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(first + count - 1 - before));
  read_part(part, before, tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == eod_) starts.push_back(before + static_cast<std::int64_t>(i) + 1);
  }
  return starts;
}

std::string FileSource::describe() const {
  const std::string files = parts_.size() == 1 ? " file, " : " files, ";
  const std::string what = kind_ == Kind::text ? " text" : std::string(" token");
  std::string elements;
  if (kind_ == Kind::tokens) elements = std::string(" (") + name_of(parts_.front().element) + ")";
  const auto with_modes = [](const Part& part) { return part.index && part.index->has_modes(); };
  const bool modes = std::any_of(parts_.begin(), parts_.end(), with_modes);
  return std::to_string(parts_.size()) + what + files + count_text(static_cast<double>(n_tokens_)) + " tokens" +
         elements + (modes ? "; the .idx gives sequences a mode (multimodal data), which is ignored" : "");
}

std::string FileSource::fingerprint() const {
  ContentHash hash;
  std::vector<std::byte> block;
  for (const Part& part : parts_) {
    hash.add(static_cast<std::uint64_t>(part.file.size()));
    hash.add(static_cast<std::uint64_t>(part.element));
    hash.add(static_cast<std::uint64_t>(kind_ == Kind::text ? eod_ : -1));
    for (const Range& range : sampled_blocks(part.file.size())) {
      block.resize(static_cast<std::size_t>(range.count()));
      part.file.read(range.first, block);
      hash.add(block);
    }
  }
  return format("%lld tokens, hash %016llx", static_cast<long long>(n_tokens_),
                static_cast<unsigned long long>(hash.value()));
}

void refuse_nul_in_samples(const InputFile& file) {
  std::vector<std::byte> block;
  for (const Range& range : sampled_blocks(file.size())) {
    block.resize(static_cast<std::size_t>(range.count()));
    file.read(range.first, block);
    refuse_nul(file.path(), range.first, block);
  }
}

Element raw_element(const std::string& dtype, std::int64_t vocab) {
  if (dtype == "auto") return usual_element(vocab);
  const auto element = element_of_name(dtype);
  require(element.has_value(), "data.dtype is auto or the name of an element");
  return *element;
}

// "PREFIX", "PREFIX.bin" or "PREFIX.idx" to PREFIX.
std::string prefix_of(const std::string& path) {
  if (path.ends_with(".bin") || path.ends_with(".idx")) return path.substr(0, path.size() - 4);
  return path;
}

Part open_bin(const std::string& path, const std::string& key, const std::string& dtype, std::int64_t vocab) {
  const std::string bin = prefix_of(path) + ".bin", idx = prefix_of(path) + ".idx";
  InputFile file(bin, key);
  Element element = raw_element(dtype, vocab);
  std::optional<MegatronIndex> index;
  if (std::filesystem::exists(idx)) {
    const Element indexed = index.emplace(idx, bin, file.size(), key).element();
    if (dtype != "auto" && indexed != element) {
      throw Error(Exit::data, "data.dtype = \"" + dtype + "\", but " + idx + " says " + name_of(indexed) +
                                  "; leave data.dtype at \"auto\", or remove the .idx if it belongs to another file");
    }
    element = indexed;
  }
  if (file.size() % size_of(element) != 0) {
    throw Error(Exit::data, bin + " has " + std::to_string(file.size()) + " bytes, which is no multiple of the " +
                                std::to_string(size_of(element)) + " bytes of a " + name_of(element) +
                                " token; the file is cut short or data.dtype is wrong");
  }
  const std::int64_t n_tokens = file.size() / size_of(element);
  return {std::move(file), element, std::move(index), 0, n_tokens};
}

}  // namespace

std::unique_ptr<TokenSource> open_text(const std::vector<std::string>& paths, const std::string& key, std::int32_t eod,
                                       std::int64_t vocab) {
  std::vector<Part> parts;
  for (const std::string& path : paths) {
    InputFile file(path, key);
    refuse_nul_in_samples(file);
    const std::int64_t size = file.size();
    parts.push_back({std::move(file), Element::u8, {}, 0, size});
  }
  return std::make_unique<FileSource>(Kind::text, std::move(parts), eod, vocab);
}

std::unique_ptr<TokenSource> open_token_files(const std::vector<std::string>& paths, const std::string& key,
                                              const std::string& dtype, std::int64_t eod, std::int64_t vocab) {
  std::vector<Part> parts;
  for (const std::string& path : paths) parts.push_back(open_bin(path, key, dtype, vocab));
  return std::make_unique<FileSource>(Kind::tokens, std::move(parts), eod, vocab);
}

}  // namespace trireme
