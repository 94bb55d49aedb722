#include "record_text.h"

#include "json_text.h"
#include "trireme/base/check.h"

std::optional<std::string_view> text_of(const Batch& batch, const Record& record, const Options& options,
                                        std::string& storage, std::vector<Problem>& problems) {
  const std::string_view bytes = std::string_view(batch.bytes).substr(record.first, record.last - record.first);
  if (batch.format == Format::text) return bytes;
  const std::string problem = read_json(bytes, options.key, storage);
  if (problem.empty()) return storage;
  if (options.malformed == Malformed::stop)
    throw trireme::Error(trireme::Exit::data, batch.file + ":" + std::to_string(record.line) + ": " + problem +
                                                  "; --malformed skip goes on without such lines");
  problems.push_back({batch.file, record.line, problem});
  return {};
}
