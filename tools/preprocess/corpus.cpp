#include "corpus.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "trireme/base/check.h"

using trireme::Error;
using trireme::Exit;

namespace {

constexpr std::size_t k_batch = 1 << 20;

Format format_of(std::string path, const std::string& begin) {
  for (const char* packed : {".gz", ".zst"}) {
    if (path.ends_with(packed)) path.resize(path.size() - std::string(packed).size());
  }
  for (const char* json : {".jsonl", ".ndjson", ".json"}) {
    if (path.ends_with(json)) return Format::jsonl;
  }
  return path == "-" && begin.starts_with('{') ? Format::jsonl : Format::text;
}

}  // namespace

std::vector<std::string> expand(const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    if (pattern == "-" || std::filesystem::exists(pattern)) {
      paths.push_back(pattern);
      continue;
    }
    glob_t found{};
    const int result = glob(pattern.c_str(), 0, nullptr, &found);
    if (result == 0) paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    if (result != 0) throw Error(Exit::data, pattern + " names no file");
  }
  return paths;
}

std::int64_t bytes_on_disk(const std::vector<std::string>& paths) {
  std::int64_t bytes = 0;
  for (const std::string& path : paths) {
    if (path == "-" || !std::filesystem::is_regular_file(path)) return 0;
    bytes += static_cast<std::int64_t>(std::filesystem::file_size(path));
  }
  return bytes;
}

Corpus::Corpus(std::vector<std::string> paths, CorpusOptions options) : paths_(std::move(paths)), options_(options) {}

bool Corpus::fill() {
  constexpr std::size_t k_block = 1 << 17;
  const std::size_t before = rest_.size();
  rest_.resize(before + k_block);
  const std::size_t n = stream_->read({rest_.data() + before, k_block});
  rest_.resize(before + n);
  return n > 0;
}

bool Corpus::open_next() {
  if (n_opened_ == paths_.size()) return false;
  const std::string& path = paths_[n_opened_++];
  stream_ = std::make_unique<trireme::TextStream>(path);
  line_ = 1;
  fill();
  format_ = options_.format == Format::automatic ? format_of(path, rest_) : options_.format;
  return true;
}

std::optional<Batch> Corpus::next() {
  while (true) {
    if (!stream_ && !open_next()) return {};
    const bool whole = format_ == Format::text && options_.documents == Documents::file;
    bool ended = false;
    while (!ended && (whole || rest_.size() < k_batch)) ended = !fill();
    Batch batch{stream_->name(), format_, {}, {}, 0};
    cut(batch, ended);
    while (batch.records.empty() && !ended) {  // a record longer than a batch
      ended = !fill();
      cut(batch, ended);
    }
    batch.n_read = n_before_ + stream_->consumed();
    if (ended) {
      n_before_ += stream_->consumed();
      stream_.reset();
      rest_.clear();
    }
    if (!batch.records.empty()) return batch;
  }
}

// Where the record that begins at `first` ends, and where the next begins; npos while its end is not read yet.
std::size_t Corpus::end_of_record(std::size_t first, bool ended, std::size_t& next) const {
  const std::size_t none = ended ? rest_.size() : std::string::npos;
  if (format_ == Format::text && options_.documents == Documents::file) return next = none;
  if (format_ == Format::jsonl || options_.documents == Documents::line) {
    const std::size_t end = rest_.find('\n', first);
    next = end == std::string::npos ? none : end + 1;
    return end == std::string::npos ? none : end;
  }
  const std::size_t end = rest_.find("\n\n", first);
  if (end == std::string::npos) return next = none;
  next = rest_.find_first_not_of('\n', end);
  if (next == std::string::npos) next = none;
  return next == std::string::npos ? next : end;
}

void Corpus::cut(Batch& batch, bool ended) {
  std::size_t done = 0;
  while (done < rest_.size()) {
    std::size_t next = 0;
    std::size_t end = end_of_record(done, ended, next);
    if (end == std::string::npos) break;
    const std::int64_t line = line_;
    line_ += std::count(rest_.begin() + static_cast<std::ptrdiff_t>(done),
                        rest_.begin() + static_cast<std::ptrdiff_t>(next), '\n');
    const bool lines = format_ == Format::jsonl || options_.documents == Documents::line;
    if (lines && end > done && rest_[end - 1] == '\r') --end;
    if (end > done) batch.records.push_back({done, end, line});
    done = next;
  }
  if (done == 0) return;
  batch.bytes.assign(rest_, 0, done);
  rest_.erase(0, done);
}
