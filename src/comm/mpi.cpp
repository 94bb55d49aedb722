#include "trireme/comm/mpi.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

#include "mpi_communicator.h"
#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr std::int64_t k_max_bytes = std::int64_t{1} << 30, k_max_reduced = 256 << 10;
constexpr std::chrono::milliseconds k_wait_for_the_cause{1000};

int rank_of(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

std::string processor_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return {name.data(), static_cast<std::size_t>(length)};
}

void print(const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "trireme: %s\n", text.c_str());
  std::fflush(stderr);
}

}  // namespace

struct MpiSession::State {
  MPI_Comm comm = MPI_COMM_NULL;  // the session's own conversation; never MPI_COMM_WORLD itself
  MPI_Comm node = MPI_COMM_NULL;
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string host;
  int thread_level = MPI_THREAD_SINGLE;
  MpiReductions reductions;
  int exceptions = 0;  // in flight at construction
  Recorder* recorder = nullptr;
  int recorded_as = -1;
};

namespace {

constexpr const char* k_how_to_launch =
    "Under Slurm use srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH and its kin; `srun --mpi=list` shows what there "
    "is), elsewhere the mpirun of the MPI library that the program was built with, which also works inside a Slurm job";

// Open MPI ends the process itself, with a page of its own and code 1, when srun brings nothing that it speaks.
void refuse_deaf_launch() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
  int length = 0;
  MPI_Get_library_version(version.data(), &length);  // allowed before MPI_Init
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  const char* rank = std::getenv("SLURM_PROCID");
  bool wired = tasks == nullptr || rank == nullptr || std::atoi(tasks) < 2;
  for (const char* name : {"PMIX_RANK", "PMI_RANK", "PMI_FD", "OMPI_COMM_WORLD_SIZE"}) {
    wired = wired || std::getenv(name) != nullptr;
  }
  if (wired || std::strncmp(version.data(), "Open MPI", 8) != 0) return;
  if (std::atoi(rank) == 0)
    print(std::string("srun started ") + tasks + " processes without PMIx, so that Open MPI cannot join them. " +
          k_how_to_launch);
  std::exit(static_cast<int>(Exit::usage));
}

}  // namespace

MpiSession::MpiSession() : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.exceptions = std::uncaught_exceptions();
  refuse_deaf_launch();
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &state.thread_level), "MPI_Init_thread");
  require(state.thread_level >= MPI_THREAD_FUNNELED, "this MPI library does not allow OpenMP threads beside it");
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &state.comm), "MPI_Comm_dup");
  returning_errors(state.comm);
  state.rank = rank_of(state.comm);
  state.size = size_of(state.comm);
  state.host = processor_name();
  check_mpi(MPI_Comm_split_type(state.comm, MPI_COMM_TYPE_SHARED, state.rank, MPI_INFO_NULL, &state.node),
            "MPI_Comm_split_type");
  returning_errors(state.node);
  state.local_rank = rank_of(state.node);
  state.local_size = size_of(state.node);
  state.reductions = MpiReductions::create();
}

MpiSession::~MpiSession() {
  if (std::uncaught_exceptions() > state_->exceptions) {
    abort(static_cast<int>(Exit::failed), "an exception left the MPI session without being reported");
  }
  state_->reductions.release();
  MPI_Finalize();
}

int MpiSession::rank() const {
  return state_->rank;
}
int MpiSession::size() const {
  return state_->size;
}
int MpiSession::local_rank() const {
  return state_->local_rank;
}
int MpiSession::local_size() const {
  return state_->local_size;
}
std::string MpiSession::host() const {
  return state_->host;
}
bool MpiSession::any_thread() const {
  return state_->thread_level == MPI_THREAD_MULTIPLE;
}

void MpiSession::record_with(Recorder* recorder) const {
  state_->recorder = recorder;
  state_->recorded_as = recorder != nullptr ? recorder->add(1, "all ranks", state_->size) : -1;
}

std::string MpiSession::broadcast(const std::string& text) const {
  const Waiting here(state_->recorder, state_->recorded_as, Operation::broadcast, 0);
  std::int64_t length = static_cast<std::int64_t>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_INT64_T, 0, state_->comm), "MPI_Bcast");
  require(length <= k_max_bytes, "a text of more than 1 GiB cannot be broadcast");
  std::string received = text;
  received.resize(static_cast<std::size_t>(length));
  check_mpi(MPI_Bcast(received.data(), static_cast<int>(length), MPI_CHAR, 0, state_->comm), "MPI_Bcast");
  return received;
}

bool MpiSession::any(bool mine) const {
  const Waiting here(state_->recorder, state_->recorded_as, Operation::agreement, 0);
  int result = mine ? 1 : 0;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &result, 1, MPI_INT, MPI_MAX, state_->comm), "MPI_Allreduce");
  return result != 0;
}

std::int64_t MpiSession::largest(std::int64_t mine) const {
  const Waiting here(state_->recorder, state_->recorded_as, Operation::agreement, 0);
  std::int64_t result = mine;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &result, 1, MPI_INT64_T, MPI_MAX, state_->comm), "MPI_Allreduce");
  return result;
}

// The name lives only until all have opened it. Rank 0 of the node makes one that nobody else has.
std::unique_ptr<NodeMemory> MpiSession::share_with_node(std::size_t bytes_per_rank) const {
  const bool creates = state_->local_rank == 0;
  std::array<char, 64> name{};
  static int n_made = 0;  // per process, as the session is
  std::snprintf(name.data(), name.size(), "/trireme-%d-%d", static_cast<int>(getpid()), n_made++);
  std::unique_ptr<NodeMemory> memory;
  if (creates) {
    memory = std::make_unique<NodeMemory>(name.data(), NodeMemory::Role::creates, bytes_per_rank, state_->local_size);
  }
  check_mpi(MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, state_->node), "MPI_Bcast");
  if (!creates) {
    memory = std::make_unique<NodeMemory>(name.data(), NodeMemory::Role::opens, bytes_per_rank, state_->local_size);
  }
  check_mpi(MPI_Barrier(state_->node), "MPI_Barrier");
  if (creates) NodeMemory::remove_name(name.data());
  return memory;
}

void MpiSession::abort(int code, const std::string& text) const {
  const bool may_be_an_echo = code == static_cast<int>(Exit::rank) && state_->size > 1;
  if (may_be_an_echo) std::this_thread::sleep_for(k_wait_for_the_cause);
  abort_now(code, text);
}

void MpiSession::abort_now(int code, const std::string& text) const {
  print("rank " + std::to_string(state_->rank) + " on " + state_->host + ": " + text);
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);  // where MPI_Abort returns
}

// The message leaves before any rank can exit: mpirun ends the job at the first exit code that is not zero.
void MpiSession::end_together(int code, const std::string& text) const {
  if (state_->rank == 0) print(text);
  MPI_Barrier(state_->comm);
  state_->reductions.release();
  MPI_Finalize();
  std::exit(code);
}

std::unique_ptr<Communicator> MpiSession::world(Backend& backend, Memory memory) const {
  return world(backend, memory, k_max_bytes);
}

std::unique_ptr<Communicator> MpiSession::world(Backend& backend, Memory memory, std::int64_t max_bytes) const {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(state_->comm, &copy), "MPI_Comm_dup");
  MpiGround ground;
  ground.backend = &backend;
  ground.memory = memory;
  ground.max_bytes = max_bytes;
  ground.max_reduced = std::min(max_bytes, k_max_reduced);
  ground.reductions = state_->reductions;
  return make_mpi_communicator(ground.on(copy));
}

bool launched_by_mpi() {
  constexpr std::array names{"OMPI_COMM_WORLD_SIZE", "PMI_RANK",    "PMIX_RANK",   "PMI_FD",
                             "MPI_LOCALRANKID",      "PALS_RANKID", "ALPS_APP_PE", "FLUX_TASK_RANK"};
  for (const char* name : names) {
    if (std::getenv(name) != nullptr) return true;
  }
  // Slurm sets SLURM_PROCID in batch scripts too; only srun's steps count their own tasks.
  const char* step_tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return std::getenv("SLURM_PROCID") != nullptr && step_tasks != nullptr && std::atoi(step_tasks) > 1;
}

std::string launcher_problem(int mpi_size) {
  if (mpi_size > 1) return "";
  struct Launcher {
    const char* variable;
    const char* name;
  };
  constexpr std::array launchers{Launcher{"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
                                 Launcher{"PMI_SIZE", "the launcher (PMI)"}, Launcher{"SLURM_STEP_NUM_TASKS", "srun"}};
  for (const Launcher& launcher : launchers) {
    const char* text = std::getenv(launcher.variable);
    const int n = text != nullptr ? std::atoi(text) : 0;
    if (n < 2) continue;
    return std::string(launcher.name) + " started " + std::to_string(n) + " processes (" + launcher.variable +
           "), but MPI sees one alone in each: the program's MPI library does not speak with this launcher. " +
           k_how_to_launch;
  }
  return "";
}

// A handle is a pointer in some MPI libraries and an int in others.
std::intptr_t mpi_handle(const Communicator& communicator) {
  const Communicator& control = communicator.control();
  const auto* mpi = dynamic_cast<const MpiCommunicator*>(&control);
  require(mpi != nullptr || control.size() == 1, "mpi_handle of a communicator that MPI does not know");
  return (std::intptr_t)(mpi != nullptr ? mpi->handle() : MPI_COMM_SELF);
}

}  // namespace trireme
