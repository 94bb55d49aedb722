#pragma once
// The commands beside `train`: what a run would need (plan), and whether this grid computes what one rank computes
// (verify).

#include <string>

#include "trireme/base/check.h"
#include "trireme/comm/mpi.h"
#include "trireme/deck/deck.h"

namespace trireme {

// Per stage: layers, parameters, memory by purpose, FLOPs, bytes per axis of one step. No MPI.
std::string plan_text(const Deck& deck, int n_ranks);

// The same steps on this job's grid and on one rank: largest relative gradient difference per parameter after the first
// step, loss differences over `steps` steps. Exit::failed above the bound of the precision. Collective.
Exit verify(const Deck& deck, const MpiSession& session, int steps);

// Largest relative difference that reordering sums may make: what verify and the tests accept.
double reorder_bound(const std::string& precision);

}  // namespace trireme
