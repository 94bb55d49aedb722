// Compares every operation of CudaBackend with CpuBackend. Without a GPU it says so and exits with the code that ctest
// reads as "skipped". A run is repeated with --rng-seed and the number it printed.
#define CATCH_CONFIG_RUNNER
#include <cstdio>
#include <random>

#include "catch.h"
#include "lab.h"

int main(int argc, char** argv) {
  if (trireme::cuda_device_count() == 0) {
    std::puts("skipped: no CUDA device");
    return trireme::k_skipped;
  }
  Catch::Session session;
  const int usage = session.applyCommandLine(argc, argv);
  if (usage != 0) return usage;
  unsigned seed = session.config().rngSeed();
  if (seed == 0) seed = std::random_device{}();
  trireme::Lab::start(seed);
  std::printf("random inputs: --rng-seed %u\n%s\n", seed, trireme::Lab::cuda().describe().c_str());
  const int failed = session.run();
  trireme::Lab::end();
  return failed;
}
