// preprocess: text to token files, merging them, and learning a tokenizer.
#include <cstdio>
#include <exception>

#include "commands.h"
#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace {

int run(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  if (options.command == "help") std::fputs(options.help.c_str(), stdout);
  if (options.command == "tokenize") tokenize(options);
  if (options.command == "merge") merge_files(options);
  if (options.command == "train-tokenizer") train_tokenizer(options);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  trireme::log().open(true, trireme::LogLevel::info, "");
  int code = 0;
  try {
    code = run(argc, argv);
  } catch (const trireme::Error& error) {
    std::fprintf(stderr, "preprocess: %s\n", error.what());
    code = static_cast<int>(error.code);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "preprocess: %s\n", error.what());
    code = 1;
  }
  trireme::log().close();
  return code;
}
