#pragma once
// The log: what rank 0 says, on the terminal and in the run folder. The one global of the program (house style 7).
// Ranks other than 0 are silent; their errors travel as Error and are printed by main().

#include <cstdio>
#include <string>

namespace trireme {

enum class LogLevel : int { error = 0, warning = 1, info = 2, debug = 3 };

class Log {
 public:
  // speaks: only this process prints. A file is appended to, plain lines only.
  void open(bool speaks, LogLevel level, const std::string& file);
  void close();
  bool speaks(LogLevel level) const { return speaks_ && level <= level_; }

  void line(LogLevel level, const std::string& text);  // a whole line, terminal and file
  void info(const std::string& text) { line(LogLevel::info, text); }
  void debug(const std::string& text) { line(LogLevel::debug, text); }
  void warn(const std::string& text);      // printed at once the first time a text is seen, counted after that
  void progress(const std::string& text);  // a live line on a terminal, nothing in files or pipes

 private:
  bool speaks_ = true, live_ = false, terminal_ = false;
  LogLevel level_ = LogLevel::info;
  std::FILE* file_ = nullptr;
};

Log& log();

// printf into a string; gcc checks the arguments.
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

std::string bytes_text(double bytes);   // "1.25 GiB"
std::string count_text(double count);   // "124.4 M"
std::string time_text(double seconds);  // "2 h 05 min", "13.2 s"

}  // namespace trireme
