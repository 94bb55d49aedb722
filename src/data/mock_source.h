#pragma once
// Random tokens, a pure function of (seed, index): as many as any run can eat, and no memory.

#include <memory>

#include "trireme/data/token_source.h"

namespace trireme {

// eod: the token behind which documents begin; -1: none.
std::unique_ptr<TokenSource> make_mock_source(std::int64_t vocab, std::int64_t eod, std::uint64_t seed);

}  // namespace trireme
