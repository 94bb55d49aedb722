#pragma once
// Errors: what the user did wrong is an Error with an exit code, what we did wrong is a failed require().
// It does not print and does not know MPI; main() reports and ends every rank.

#include <cstdint>
#include <stdexcept>
#include <string>

namespace trireme {

// The place a message speaks about. std::source_location is absent from clang 14; these builtins work in g++, clang,
// nvcc.
struct Where {
  const char* file;
  int line;
  const char* function;
  static constexpr Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE(),
                              const char* function = __builtin_FUNCTION()) {
    return {file, line, function};
  }
};

// Exit codes of every program (README, "Exit codes").
enum class Exit : int { finished = 0, failed = 1, usage = 2, data = 3, rank = 4, numerics = 5, requeue = 75 };

// The user, the deck, a file or the machine is at fault. main() prints it once and ends all ranks with `code`.
struct Error : std::runtime_error {
  Error(Exit exit_code, const std::string& text) : std::runtime_error(text), code(exit_code) {}
  Exit code;
};

// The same error on every rank: nobody needs to be aborted, rank 0 prints it and all end together.
struct SharedError : Error {
  using Error::Error;
};

// A broken invariant is our bug. Always on, therefore never inside a hot loop.
void require(bool holds, const char* what, Where where = Where::here());
void require(bool holds, const std::string& what, Where where = Where::here());

// a / b where a remainder is our bug (decks are checked before).
std::int64_t div_exact(std::int64_t a, std::int64_t b, Where where = Where::here());

inline std::int64_t div_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}
inline std::int64_t round_up(std::int64_t a, std::int64_t b) {
  return div_up(a, b) * b;
}

}  // namespace trireme
