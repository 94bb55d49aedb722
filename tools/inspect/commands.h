#pragma once
// The commands of inspect. Each reads its words, prints, and returns the exit code; what is wrong with files or words
// is thrown as Error.

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::inspect {

struct Options {
  bool json = false;
  std::int64_t count = 32;     // of values to print
  std::string tokenizer;       // data: shows text with it
  std::int64_t sequence = 64;  // data: of files that no deck describes
};

using Words = std::vector<std::string>;

int list(const Words& words, const Options& options);    // FILE
int stats(const Words& words, const Options& options);   // FILE [ARRAY...]
int print(const Words& words, const Options& options);   // FILE ARRAY [INDEX,...]
int diff(const Words& words, const Options& options);    // A B
int verify(const Words& words, const Options& options);  // FILE
int data(const Words& words, const Options& options);    // PREFIX|TEXT|DECK [SAMPLE...]

}  // namespace trireme::inspect
