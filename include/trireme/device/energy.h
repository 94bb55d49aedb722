#pragma once
// The energy that a GPU has taken, from its own counter through NVIDIA's management library (NVML), which is looked for
// at run time: a build needs nothing of it.

#include <memory>
#include <string>

namespace trireme {

class EnergyMeter {
 public:
  virtual ~EnergyMeter() = default;
  virtual double joules() = 0;  // since some moment before the meter was opened; never falls; NaN: cannot be read
};

// id: of the GPU, as cuda_device_id() gives it. library: file name, "libnvidia-ml.so.1" unless a test has another.
// Null when there is nothing to read, and *why_not says why. Throws nothing.
std::unique_ptr<EnergyMeter> open_energy_meter(const std::string& id, const std::string& library, std::string* why_not);

}  // namespace trireme
