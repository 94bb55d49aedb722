#pragma once
// Files of text to batches of documents, in the order of the files. It decompresses and cuts; JSON is read by
// read_json.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/data/text_stream.h"

enum class Format { automatic, jsonl, text };
enum class Documents { file, line, paragraph };  // what a document is in plain text

struct CorpusOptions {
  Format format = Format::automatic;
  Documents documents = Documents::file;
};

struct Record {
  std::size_t first, last;  // in the bytes of its batch
  std::int64_t line;        // of the file, from 1
};

struct Batch {
  std::string file;
  Format format;
  std::string bytes;
  std::vector<Record> records;
  std::int64_t n_read = 0;  // bytes of all files so far, as they are on disk
};

// Patterns with * ? [ are expanded and sorted; "-" is standard input. Throws Error for a pattern that names nothing.
std::vector<std::string> expand(const std::vector<std::string>& patterns);
std::int64_t bytes_on_disk(const std::vector<std::string>& paths);  // 0 with standard input

class Corpus {
 public:
  Corpus(std::vector<std::string> paths, CorpusOptions options);
  std::optional<Batch> next();  // of about a megabyte, more where a document is longer; none at the end

 private:
  bool open_next();
  bool fill();  // more bytes behind rest_; false at the end of the file
  void cut(Batch& batch, bool ended);
  std::size_t end_of_record(std::size_t first, bool ended, std::size_t& next) const;

  std::vector<std::string> paths_;
  CorpusOptions options_;
  std::size_t n_opened_ = 0;
  std::unique_ptr<trireme::TextStream> stream_;
  Format format_ = Format::text;
  std::string rest_;  // read and not handed out
  std::int64_t line_ = 1, n_before_ = 0;
};
