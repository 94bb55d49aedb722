/* Stands in for libnvidia-ml.so.1 in a test: one GPU, which takes 1.5 J from one look at its counter to the next. Built
   in variants that fail as drivers and old GPUs do. */
#include <string.h>

#ifndef INIT_CODE
#define INIT_CODE 0
#endif
#ifndef ENERGY_CODE
#define ENERGY_CODE 0
#endif

static int open_count = 0;
static unsigned long long millijoules = 1000000;
static int device;

int nvmlInit_v2(void) {
  if (INIT_CODE == 0) ++open_count;
  return INIT_CODE;
}

int nvmlShutdown(void) {
  --open_count;
  return 0;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  if (open_count < 1) return 1;
  if (strcmp(uuid, "GPU-00112233-4455-6677-8899-aabbccddeeff") != 0) return 6;
  *handle = &device;
  return 0;
}

#ifndef OLD
int nvmlDeviceGetTotalEnergyConsumption(void* handle, unsigned long long* energy) {
  if (handle != &device) return 2;
  millijoules += 1500;
  *energy = millijoules;
  return ENERGY_CODE;
}
#endif

const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : code == 6 ? "Not Found" : code == 3 ? "Not Supported" : "?";
}
