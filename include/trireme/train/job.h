#pragma once
// Where a run takes place: device, communicators and process grid of this rank, chosen from the deck and from what the
// node has. Every choice is kept as a line for the start-up table.

#include <memory>
#include <string>
#include <vector>

#include "trireme/base/trace.h"
#include "trireme/comm/mpi.h"
#include "trireme/comm/process_grid.h"
#include "trireme/deck/deck.h"
#include "trireme/device/backend.h"

namespace trireme {

// parallel.data = 0 means the ranks that remain.
std::array<int, k_n_axes> grid_size(const ParallelDeck& parallel, int n_ranks);

// Cores this process may use, those that other ranks of the node may use too divided among them; at least 1.
// Collective.
int threads_per_rank(const DeviceDeck& device, const MpiSession& session);

struct Job {
  DeviceKind kind = DeviceKind::cpu;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Backend> host;          // CPU backend for host tensors: counts, agreements
  std::unique_ptr<Communicator> control;  // all ranks, host tensors, MPI
  std::unique_ptr<ProcessGrid> grid;
  std::vector<std::string> decisions;  // "device   cpu, 2 threads: no GPU is visible"
};
// recorder: what passes between the ranks is recorded there; null: nowhere.
Job make_job(const Deck& deck, const MpiSession& session, Recorder* recorder);

}  // namespace trireme
