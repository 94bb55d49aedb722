#include "memory_source.h"

#include <algorithm>
#include <cstring>

#include "input_file.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr std::int64_t k_most_bytes = std::int64_t{1} << 32;

std::string whole_text(const InputFile& file) {
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  const std::size_t nul = text.find('\0');
  if (nul == std::string::npos) return text;
  throw Error(Exit::data, file.path() + ": byte " + std::to_string(nul) +
                              " is NUL, so this is not text; for files of token ids set data.source = \"tokens\"");
}

}  // namespace

std::unique_ptr<MemorySource> tokenize_text(const std::vector<std::string>& paths, const std::string& key,
                                            const Tokenizer& tokenizer, std::int64_t eod) {
  MemorySource::Contents made;
  ContentHash hash;
  std::int64_t bytes = 0;
  for (const std::string& path : paths) {
    const InputFile file(path, key);
    bytes += file.size();
    if (bytes > k_most_bytes)
      throw Error(Exit::data, key + " hold more than " + bytes_text(static_cast<double>(k_most_bytes)) +
                                  " of text, too much to tokenize at every start; turn it into token files once with "
                                  "tools/preprocess and set data.source = \"tokens\"");
    const std::string text = whole_text(file);
    hash.add(text.size());
    hash.add(std::as_bytes(std::span(text)));
    made.starts.push_back(static_cast<std::int64_t>(made.ids.size()));
    tokenizer.append(text, Spelled::token, made.ids);
    if (eod >= 0) made.ids.push_back(static_cast<std::int32_t>(eod));
  }
  const auto n = static_cast<std::int64_t>(made.ids.size());
  made.description = std::to_string(paths.size()) + (paths.size() == 1 ? " text file, " : " text files, ") +
                     count_text(static_cast<double>(n)) + " tokens (" + tokenizer.describe() + ")";
  made.fingerprint = format("%lld tokens, hash %016llx, end %lld, ", static_cast<long long>(n),
                            static_cast<unsigned long long>(hash.value()), static_cast<long long>(eod)) +
                     tokenizer.fingerprint();
  return std::make_unique<MemorySource>(std::move(made));
}

std::unique_ptr<TokenSource> MemorySource::part(Range tokens) const {
  Contents made;
  made.ids.assign(contents_.ids.begin() + tokens.first, contents_.ids.begin() + tokens.last);
  made.starts = document_starts(tokens.first, tokens.count());
  for (std::int64_t& start : made.starts) start -= tokens.first;
  const std::string range =
      format("[%lld, %lld)", static_cast<long long>(tokens.first), static_cast<long long>(tokens.last));
  made.description = contents_.description + ", of these " + range;
  made.fingerprint = contents_.fingerprint + ", " + range;
  return std::make_unique<MemorySource>(std::move(made));
}

void MemorySource::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  require(first >= 0 && first + static_cast<std::int64_t>(tokens.size()) <= n_tokens(),
          "read of tokens outside the source");
  std::copy_n(contents_.ids.begin() + first, tokens.size(), tokens.begin());
}

std::vector<std::int64_t> MemorySource::document_starts(std::int64_t first, std::int64_t count) const {
  const auto begin = std::lower_bound(contents_.starts.begin(), contents_.starts.end(), first);
  return {begin, std::lower_bound(begin, contents_.starts.end(), first + count)};
}

}  // namespace trireme
