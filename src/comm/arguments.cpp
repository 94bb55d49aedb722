#include "arguments.h"

#include "trireme/base/check.h"

namespace trireme {

void require_contiguous(const Tensor& x) {
  if (x.contiguous()) return;
  require(false, "a communicator got rows of " + to_string(x.shape) + " at a pitch of " + std::to_string(x.pitch) +
                     " elements: copy them into contiguous memory first");
}

void require_pair(const Tensor& from_left, const Tensor& to_right) {
  require_contiguous(from_left);
  require_contiguous(to_right);
  require(from_left.dtype == to_right.dtype && from_left.count() == to_right.count(),
          "shift receives " + to_string(from_left.shape) + " " + name_of(from_left.dtype) + " but sends " +
              to_string(to_right.shape) + " " + name_of(to_right.dtype));
  require(from_left.data != to_right.data || from_left.count() == 0, "shift cannot receive into what it sends");
}

void require_parts(const Tensor& all, const Tensor& mine, int n_ranks) {
  require_contiguous(all);
  require_contiguous(mine);
  if (all.dtype == mine.dtype && all.count() == n_ranks * mine.count()) return;
  require(false, to_string(all.shape) + " " + name_of(all.dtype) + " is not " + std::to_string(n_ranks) + " times " +
                     to_string(mine.shape) + " " + name_of(mine.dtype));
}

bool is_own_part(const Tensor& all, const Tensor& mine, int rank) {
  return mine.data == all.data + static_cast<std::size_t>(rank) * mine.bytes();
}

}  // namespace trireme
