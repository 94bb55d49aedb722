#pragma once
// Requests to stop from outside: SIGTERM, SIGUSR1, SIGUSR2 (batch systems) and SIGINT (terminal; a second one ends at
// once).

namespace trireme {

void watch_signals();
int received_signal();  // 0: none
double wall_seconds();  // monotonic, since an arbitrary moment

}  // namespace trireme
