#include "trireme/base/version.h"

namespace trireme {

std::string version() {
  return TRIREME_VERSION;
}

std::string git_revision() {
  const std::string revision = TRIREME_REVISION;
  return revision.empty() ? "unknown" : revision;
}

}  // namespace trireme
