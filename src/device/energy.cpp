#include "trireme/device/energy.h"

#include <dlfcn.h>

#include <cmath>

#include "trireme/base/log.h"

namespace trireme {

namespace {

// NVML's C interface, as far as it is used here (NVML API reference, "Device Queries"): 0 is success, energy is in
// millijoules.
using NvmlDevice = void*;
struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*device_by_uuid)(const char*, NvmlDevice*) = nullptr;
  int (*total_energy)(NvmlDevice, unsigned long long*) = nullptr;
  const char* (*error_text)(int) = nullptr;
};

struct Library {
  explicit Library(const std::string& name) : handle(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (handle != nullptr) dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  template <class F>
  bool find(const char* name, F& function) const {
    function = reinterpret_cast<F>(dlsym(handle, name));
    return function != nullptr;
  }
  void* handle;
};

// "0123...": 32 digits of cuda_device_id(); NVML writes "GPU-01234567-89ab-cdef-0123-456789abcdef".
std::string nvml_uuid(const std::string& id) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < id.size(); ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) text += '-';
    text += id[i];
  }
  return text;
}

class NvmlMeter final : public EnergyMeter {
 public:
  NvmlMeter(std::unique_ptr<Library> library, const Nvml& nvml, NvmlDevice device)
      : library_(std::move(library)), nvml_(nvml), device_(device) {}
  ~NvmlMeter() override { nvml_.shutdown(); }
  double joules() override {
    unsigned long long millijoules = 0;
    return nvml_.total_energy(device_, &millijoules) == 0 ? 1e-3 * static_cast<double>(millijoules) : std::nan("");
  }

 private:
  std::unique_ptr<Library> library_;
  Nvml nvml_;
  NvmlDevice device_;
};

}  // namespace

std::unique_ptr<EnergyMeter> open_energy_meter(const std::string& id, const std::string& name, std::string* why_not) {
  const auto nothing = [why_not](const std::string& text) {
    *why_not = text;
    return nullptr;
  };
  if (id.empty()) return nothing("no GPU");
  auto library = std::make_unique<Library>(name);
  if (library->handle == nullptr) return nothing(name + " cannot be loaded");
  Nvml nvml;
  const bool complete = library->find("nvmlInit_v2", nvml.init) && library->find("nvmlShutdown", nvml.shutdown) &&
                        library->find("nvmlDeviceGetHandleByUUID", nvml.device_by_uuid) &&
                        library->find("nvmlDeviceGetTotalEnergyConsumption", nvml.total_energy) &&
                        library->find("nvmlErrorString", nvml.error_text);
  if (!complete) return nothing(name + " is too old");
  if (const int code = nvml.init(); code != 0) return nothing(std::string("NVML: ") + nvml.error_text(code));
  NvmlDevice device = nullptr;
  unsigned long long millijoules = 0;
  int code = nvml.device_by_uuid(nvml_uuid(id).c_str(), &device);
  if (code == 0) code = nvml.total_energy(device, &millijoules);
  if (code != 0) {
    const std::string text = nvml.error_text(code);
    nvml.shutdown();
    return nothing("NVML, " + nvml_uuid(id) + ": " + text);
  }
  return std::make_unique<NvmlMeter>(std::move(library), nvml, device);
}

}  // namespace trireme
