#include "trireme/train/stop.h"

#include <chrono>
#include <csignal>
#include <initializer_list>

namespace trireme {

namespace {

// A signal handler can reach nothing but a static.
volatile std::sig_atomic_t g_signal = 0;

void on_signal(int signal) {
  if (signal == SIGINT && g_signal == SIGINT) std::signal(SIGINT, SIG_DFL), std::raise(SIGINT);
  g_signal = signal;
}

}  // namespace

void watch_signals() {
  for (const int signal : {SIGTERM, SIGUSR1, SIGUSR2, SIGINT}) std::signal(signal, on_signal);
}

int received_signal() {
  return static_cast<int>(g_signal);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace trireme
