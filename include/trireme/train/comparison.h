#pragma once
// Two runs side by side: gradients collected from the ranks that hold them, and how far they are apart. It runs nothing
// and prints nothing.

#include <string>
#include <vector>

#include "trireme/train/engine.h"

namespace trireme {

// This rank's share of the reduced gradient of one parameter is added to the global array; nothing where others count.
// The shares of all ranks make the whole gradient.
void add_gradient_share(Engine& engine, ParamId id, const Communicator& replicas, Backend& backend,
                        std::vector<double>& global);

// The larger of two; not a number is larger than anything.
double worse(double a, double b);
double relative_difference(double ours, double theirs);  // |ours - theirs| / |theirs|, 0 when both are 0

struct GradientDifference {
  std::string name;
  int layer = 0;
  double difference = 0, largest = 0;  // largest |ours - theirs| and |theirs| of one parameter
};
GradientDifference compare(const ParamSpec& spec, const std::vector<double>& ours, const std::vector<double>& theirs);

// Each difference over the largest gradient of its layer: a gradient that cancels but for rounding (the keys' bias) has
// no scale of its own.
std::vector<double> over_layers(const std::vector<GradientDifference>& differences);

}  // namespace trireme
