#pragma once
// How far a run over files is, as a live line on a terminal, and the lines that could not be read. It counts, and knows
// no tokens' meaning.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

struct Problem {
  std::string file;
  std::int64_t line;
  std::string what;
};

class Progress {
 public:
  explicit Progress(std::int64_t n_bytes) : n_bytes_(n_bytes), start_(std::chrono::steady_clock::now()) {}
  // read: bytes of the files so far; text: bytes of documents so far.
  void show(std::int64_t read, std::int64_t text, std::int64_t tokens);
  double seconds() const;

 private:
  std::int64_t n_bytes_;  // of all files; 0: not known
  std::chrono::steady_clock::time_point start_;
  double shown_ = 0;
};

// Counts malformed lines and names the first ones.
class Problems {
 public:
  void add(const std::vector<Problem>& more);
  std::int64_t count() const { return count_; }

 private:
  std::int64_t count_ = 0;
};
