#include "part_source.h"

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

std::string PartSource::range() const {
  return format("[%lld, %lld)", static_cast<long long>(part_.first), static_cast<long long>(part_.last));
}

void PartSource::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  require(first >= 0 && first + static_cast<std::int64_t>(tokens.size()) <= n_tokens(),
          "read of tokens outside the source");
  whole_->read(part_.first + first, tokens);
}

std::vector<std::int64_t> PartSource::document_starts(std::int64_t first, std::int64_t count) const {
  std::vector<std::int64_t> starts = whole_->document_starts(part_.first + first, count);
  for (std::int64_t& start : starts) start -= part_.first;
  return starts;
}

BlendSource::BlendSource(std::vector<Part> parts) : parts_(std::move(parts)) {
  require(!parts_.empty(), "a blend of nothing");
  std::int64_t first = 0;
  for (const Part& part : parts_) {
    corpora_.push_back({part.name, {first, first + part.source->n_tokens()}, part.weight});
    first += part.source->n_tokens();
  }
}

std::size_t BlendSource::part_of(std::int64_t token) const {
  const auto behind = std::upper_bound(corpora_.begin(), corpora_.end(), token,
                                       [](std::int64_t i, const Corpus& corpus) { return i < corpus.tokens.first; });
  return static_cast<std::size_t>(behind - corpora_.begin()) - 1;
}

void BlendSource::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  require(first >= 0 && first + static_cast<std::int64_t>(tokens.size()) <= n_tokens(),
          "read of tokens outside the source");
  for (std::size_t i = part_of(first); !tokens.empty(); ++i) {
    const std::int64_t room = corpora_[i].tokens.last - first;
    const auto here = static_cast<std::size_t>(std::min<std::int64_t>(room, static_cast<std::int64_t>(tokens.size())));
    parts_[i].source->read(first - corpora_[i].tokens.first, tokens.first(here));
    tokens = tokens.subspan(here);
    first += static_cast<std::int64_t>(here);
  }
}

std::vector<std::int64_t> BlendSource::document_starts(std::int64_t first, std::int64_t count) const {
  std::vector<std::int64_t> starts;
  for (std::size_t i = part_of(first); count > 0; ++i) {
    const Range tokens = corpora_[i].tokens;
    const std::int64_t here = std::min(tokens.last - first, count);
    for (const std::int64_t start : parts_[i].source->document_starts(first - tokens.first, here))
      starts.push_back(start + tokens.first);
    first += here;
    count -= here;
  }
  return starts;
}

std::string BlendSource::describe() const {
  return std::to_string(parts_.size()) + " corpora, " + count_text(static_cast<double>(n_tokens())) + " tokens";
}

std::string BlendSource::fingerprint() const {
  std::string text = "blend";
  for (const Part& part : parts_) text += format("; %.17g of ", part.weight) + part.source->fingerprint();
  return text;
}

}  // namespace trireme
