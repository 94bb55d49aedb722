#include "trireme/model/param_table.h"

#include "trireme/base/check.h"

namespace trireme {

ParamId ParamTable::add(ParamSpec spec) {
  require(spec.shape.rank == 1 || spec.shape.rank == 2, "a parameter is a vector or a matrix: " + spec.name);
  if (spec.stack.empty()) spec.stack = spec.name;
  specs_.push_back(std::move(spec));
  return size() - 1;
}

std::int64_t ParamTable::n_elements() const {
  std::int64_t n = 0;
  for (const ParamSpec& spec : specs_) n += spec.shape.count();
  return n;
}

}  // namespace trireme
