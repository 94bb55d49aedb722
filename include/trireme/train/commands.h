#pragma once
// The commands beside `train`: what a run would need (plan), and whether this grid computes what one rank computes
// (verify).

#include <string>

#include "trireme/base/check.h"
#include "trireme/comm/mpi.h"
#include "trireme/deck/deck.h"
#include "trireme/deck/machine.h"
#include "trireme/device/backend.h"

namespace trireme {

// Per stage: layers, parameters, memory by purpose, FLOPs, bytes per axis of one step; the time of a step by the table
// of a machine, null: at given rates. No MPI.
std::string plan_text(const Deck& deck, int n_ranks, const Machine* machine);
DeviceKind planned_kind(const Deck& deck);  // where the deck would run, without looking for devices

// The same steps on this job's grid and on one rank: largest relative gradient difference per parameter after the first
// step, loss differences over `steps` steps. Exit::failed above the bound of the precision. Collective.
Exit verify(const Deck& deck, const MpiSession& session, int steps);

// Largest relative difference that reordering sums may make: what verify and the tests accept.
double reorder_bound(const std::string& precision);

}  // namespace trireme
