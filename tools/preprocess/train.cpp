#include <filesystem>
#include <fstream>

#include "commands.h"
#include "ordered_work.h"
#include "record_text.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/data/tokenizer.h"
#include "trireme/data/tokenizer_trainer.h"

using namespace trireme;

namespace {

struct Counted {
  std::vector<Problem> problems;
  std::int64_t n_text = 0, n_read = 0;
};

Counted count(const Batch& batch, const Options& options, TokenizerTrainer& trainer) {
  Counted made;
  made.n_read = batch.n_read;
  std::string storage;
  for (const Record& record : batch.records) {
    const auto text = text_of(batch, record, options, storage, made.problems);
    if (!text) continue;
    made.n_text += static_cast<std::int64_t>(text->size());
    trainer.add(*text);
  }
  return made;
}

}  // namespace

void train_tokenizer(const Options& options) {
  if (!options.overwrite && std::filesystem::exists(options.output))
    throw Error(Exit::usage, options.output + " exists; choose another --output, or --overwrite");
  const std::vector<std::string> paths = expand(options.inputs);
  std::vector<TokenizerTrainer> trainers;
  for (int i = 0; i < options.threads; ++i) trainers.emplace_back(options.style);
  Corpus corpus(paths, options.corpus);
  Progress progress(bytes_on_disk(paths));
  Problems problems;
  std::int64_t n_text = 0;
  OrderedWork<Batch, Counted> line;
  line.run(
      options.threads, [&] { return corpus.next(); },
      [&](const Batch& batch, int thread) { return count(batch, options, trainers[static_cast<std::size_t>(thread)]); },
      [&](const Counted& made) {
        n_text += made.n_text;
        problems.add(made.problems);
        progress.show(made.n_read, n_text, 0);
      });
  for (std::size_t i = 1; i < trainers.size(); ++i) trainers.front().add(trainers[i]);
  const std::string text =
      trainers.front().train({options.vocab, options.min_frequency, options.special}, [&](std::int64_t n) {
        log().progress(format("%lld of %lld tokens", static_cast<long long>(n), static_cast<long long>(options.vocab)));
      });
  std::ofstream file(options.output, std::ios::binary);
  file << text;
  if (!file.flush()) throw Error(Exit::data, options.output + " cannot be written");
  file.close();
  const auto made = open_tokenizer(options.output, "--output");
  log().info(format("text          %.1f MB, %lld different words, %lld malformed lines skipped",
                    static_cast<double>(n_text) / 1e6, static_cast<long long>(trainers.front().n_words()),
                    static_cast<long long>(problems.count())));
  log().info("tokenizer     " + made->describe());
  if (made->vocab_size() < options.vocab)
    log().warn(format("the text has pairs for %lld tokens only, fewer than --vocab %lld",
                      static_cast<long long>(made->vocab_size()), static_cast<long long>(options.vocab)));
  log().info(format("written       %s in %.2f s", options.output.c_str(), progress.seconds()));
}
