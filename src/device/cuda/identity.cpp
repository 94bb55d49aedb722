#include <cuda_runtime.h>

#include "trireme/base/log.h"
#include "trireme/device/backend.h"

namespace trireme {

std::string cuda_device_id(int local_rank) {
  const int n = cuda_device_count();
  cudaDeviceProp properties{};
  if (n == 0 || cudaGetDeviceProperties(&properties, local_rank % n) != cudaSuccess) return "";
  std::string id;
  for (const char byte : properties.uuid.bytes) id += format("%02x", static_cast<unsigned char>(byte));
  return id;
}

}  // namespace trireme
