#include <algorithm>
#include <filesystem>

#include "commands.h"
#include "ordered_work.h"
#include "record_text.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/data/token_description.h"
#include "trireme/data/token_writer.h"
#include "trireme/data/tokenizer.h"

using namespace trireme;

namespace {

struct Encoded {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> ends;  // of documents, in ids
  std::vector<Problem> problems;
  std::int64_t n_text = 0, n_read = 0, n_empty = 0;
};

struct Edges {
  std::optional<std::int32_t> begin, end;  // tokens around each document
};

struct Totals {
  std::int64_t n_text = 0, n_empty = 0, longest = 0;
  Problems problems;
};

Edges edges_of(const Options& options, const Tokenizer& tokenizer) {
  Edges edges;
  if (options.with_bod) {
    edges.begin = tokenizer.begin_of_document();
    if (!edges.begin) throw Error(Exit::usage, "--bod: the tokenizer names no token for the beginning of a document");
  }
  if (!options.with_eod) return edges;
  edges.end = options.eod.empty() ? tokenizer.end_of_document() : tokenizer.id_of(options.eod);
  if (edges.end) return edges;
  if (!options.eod.empty()) throw Error(Exit::usage, "--eod " + options.eod + ": the tokenizer has no such token");
  throw Error(Exit::usage, "the tokenizer names no end of a document; give its token with --eod, or --no-eod");
}

Encoded encode(const Batch& batch, const Options& options, const Tokenizer& tokenizer, const Edges& edges) {
  Encoded made;
  made.n_read = batch.n_read;
  std::string storage;
  for (const Record& record : batch.records) {
    const auto text = text_of(batch, record, options, storage, made.problems);
    if (!text) continue;
    if (text->empty()) {
      ++made.n_empty;
      continue;
    }
    made.n_text += static_cast<std::int64_t>(text->size());
    if (edges.begin) made.ids.push_back(*edges.begin);
    tokenizer.append(*text, options.specials, made.ids);
    if (edges.end) made.ids.push_back(*edges.end);
    made.ends.push_back(made.ids.size());
  }
  return made;
}

void write(const Encoded& made, TokenWriter& writer, Totals& totals) {
  std::size_t first = 0;
  for (const std::size_t end : made.ends) {
    writer.add_document(std::span(made.ids).subspan(first, end - first));
    totals.longest = std::max(totals.longest, static_cast<std::int64_t>(end - first));
    first = end;
  }
  totals.n_text += made.n_text;
  totals.n_empty += made.n_empty;
  totals.problems.add(made.problems);
}

// Absolute, so that it is found from anywhere on this machine.
std::string path_of(const std::string& tokenizer) {
  return tokenizer == "byte" ? tokenizer : std::filesystem::absolute(tokenizer).lexically_normal().string();
}

void describe(const Options& options, const Tokenizer& tokenizer, const Edges& edges, const TokenWriter& writer) {
  write_token_description(options.output, {tokenizer.describe(), tokenizer.fingerprint(), path_of(options.tokenizer),
                                           tokenizer.vocab_size(), edges.end, writer.n_documents(), writer.n_tokens()});
}

void report(const Options& options, const TokenWriter& writer, const Totals& totals, double seconds) {
  const auto tokens = static_cast<double>(writer.n_tokens()), text = static_cast<double>(totals.n_text);
  const auto documents = static_cast<double>(writer.n_documents());
  log().info(format("documents     %lld (%lld empty ones left out, %lld malformed lines skipped)",
                    static_cast<long long>(writer.n_documents()), static_cast<long long>(totals.n_empty),
                    static_cast<long long>(totals.problems.count())));
  log().info(format("tokens        %lld, %.3f bytes of text each, %.1f a document, longest %lld",
                    static_cast<long long>(writer.n_tokens()), text / tokens, tokens / documents,
                    static_cast<long long>(totals.longest)));
  log().info(format("speed         %.1f MB/s, %s tokens/s, %.2f s on %d threads", text / 1e6 / seconds,
                    count_text(tokens / seconds).c_str(), seconds, options.threads));
  log().info("written       " + options.output + ".bin, .idx, .json");
}

Element element_of(const Options& options, std::int64_t vocab) {
  if (options.dtype == "auto") return usual_element(vocab);
  const auto element = element_of_name(options.dtype);
  if (!element) throw Error(Exit::usage, "--dtype " + options.dtype + ": expected auto, u8, i8, u16, i16, i32 or i64");
  if (vocab - 1 > largest_id(*element))
    throw Error(Exit::usage, "--dtype " + options.dtype + " holds ids up to " + std::to_string(largest_id(*element)) +
                                 ", but the tokenizer has " + std::to_string(vocab) + " tokens");
  return *element;
}

}  // namespace

void tokenize(const Options& options) {
  refuse_existing(options);
  const auto tokenizer = open_tokenizer(options.tokenizer, "--tokenizer");
  const Edges edges = edges_of(options, *tokenizer);
  const std::vector<std::string> paths = expand(options.inputs);
  log().info("tokenizer     " + tokenizer->describe());
  Corpus corpus(paths, options.corpus);
  TokenWriter writer(options.output, element_of(options, tokenizer->vocab_size()));
  Progress progress(bytes_on_disk(paths));
  Totals totals;
  OrderedWork<Batch, Encoded> line;
  line.run(
      options.threads, [&] { return corpus.next(); },
      [&](const Batch& batch, int) { return encode(batch, options, *tokenizer, edges); },
      [&](const Encoded& made) {
        write(made, writer, totals);
        progress.show(made.n_read, totals.n_text, writer.n_tokens());
      });
  writer.finish();
  describe(options, *tokenizer, edges, writer);
  report(options, writer, totals, progress.seconds());
}
