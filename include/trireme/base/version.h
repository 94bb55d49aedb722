#pragma once
// Who wrote this file, who printed this log: the version and the revision the program was built from.

#include <string>

namespace trireme {

std::string version();       // "0.1.0"
std::string git_revision();  // "a1b2c3d" or "a1b2c3d-dirty"; "unknown" outside a checkout

}  // namespace trireme
