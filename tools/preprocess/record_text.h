#pragma once
// The text of one record of a batch, whatever its format, and what becomes of malformed ones.

#include <optional>

#include "options.h"
#include "progress.h"

// None for a line that is skipped, which is added to `problems`. The text lives in the batch or in `storage`. Throws
// Error(Exit::data) for a malformed line unless such are skipped.
std::optional<std::string_view> text_of(const Batch& batch, const Record& record, const Options& options,
                                        std::string& storage, std::vector<Problem>& problems);
