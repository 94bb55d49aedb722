#pragma once
// The contract of Communicator's arguments as checks that every implementation shares. Ranks are not compared here.

#include "trireme/device/tensor.h"

namespace trireme {

void require_contiguous(const Tensor& x);
void require_pair(const Tensor& from_left, const Tensor& to_right);      // same dtype and count, different memory
void require_parts(const Tensor& all, const Tensor& mine, int n_ranks);  // all is n_ranks times mine

// mine is the memory of part `rank` of all.
bool is_own_part(const Tensor& all, const Tensor& mine, int rank);

}  // namespace trireme
