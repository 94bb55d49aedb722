#pragma once
// Tokens in files, read on demand and checked as they are read: text (a token per byte) and .bin files (raw or
// Megatron). The files are one long array in the order of the deck; it does not split and does not shuffle.

#include <memory>
#include <string>
#include <vector>

#include "trireme/data/token_source.h"

namespace trireme {

// Each file's bytes, then `eod`. Files with NUL bytes are refused: at once where the file is looked at on opening (all
// of it up to 64 MiB), else when the place is read.
std::unique_ptr<TokenSource> open_text(const std::vector<std::string>& paths, const std::string& key, std::int32_t eod,
                                       std::int64_t vocab);

// PREFIX, PREFIX.bin or PREFIX.idx. The element comes from PREFIX.idx where that exists, else from `dtype`
// (data.dtype).
std::unique_ptr<TokenSource> open_token_files(const std::vector<std::string>& paths, const std::string& key,
                                              const std::string& dtype, std::int64_t eod, std::int64_t vocab);

}  // namespace trireme
