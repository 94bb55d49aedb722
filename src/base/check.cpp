#include "trireme/base/check.h"

namespace trireme {

namespace {

std::string at(const Where& where) {
  return std::string(where.file) + ":" + std::to_string(where.line) + " (" + where.function + ")";
}

}  // namespace

void require(bool holds, const char* what, Where where) {
  if (!holds) throw std::logic_error("internal error: " + std::string(what) + " at " + at(where));
}

void require(bool holds, const std::string& what, Where where) {
  require(holds, what.c_str(), where);
}

std::int64_t div_exact(std::int64_t a, std::int64_t b, Where where) {
  if (b == 0 || a % b != 0) {
    require(false, std::to_string(a) + " is not a multiple of " + std::to_string(b), where);
  }
  return a / b;
}

}  // namespace trireme
