#pragma once
// Whether a checkpoint and a Hugging Face folder are the same model: both load, both read the same tokens.

#include <string>

namespace trireme {

// Prints the largest difference of the logits of a probe and of the losses; false when it exceeds what rounding makes.
bool check_conversion(const std::string& checkpoint, const std::string& folder);

}  // namespace trireme
