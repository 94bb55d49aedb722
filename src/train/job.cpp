#include "trireme/train/job.h"

#include <sched.h>

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/comm/nccl.h"
#include "trireme/comm/traced.h"

namespace trireme {

std::array<int, k_n_axes> grid_size(const ParallelDeck& parallel, int n_ranks) {
  const int pp = static_cast<int>(parallel.pipeline), cp = static_cast<int>(parallel.context);
  const int tp = static_cast<int>(parallel.tensor);
  const int dp =
      parallel.data > 0 ? static_cast<int>(parallel.data) : static_cast<int>(div_exact(n_ranks, pp * cp * tp));
  require(pp * dp * cp * tp == n_ranks, "the deck was checked against the number of ranks");
  return {pp, dp, cp, tp};
}

// Slurm mostly binds each rank to cores of its own, mpirun often to none: the masks tell.
int threads_per_rank(const DeviceDeck& device, const MpiSession& session) {
  const std::unique_ptr<NodeMemory> memory = session.share_with_node(sizeof(cpu_set_t));
  auto* const mine = reinterpret_cast<cpu_set_t*>(memory->of(session.local_rank()));
  CPU_ZERO(mine);
  const bool known = sched_getaffinity(0, sizeof(*mine), mine) == 0;
  session.any(false);  // all have written
  if (device.threads > 0) return static_cast<int>(device.threads);
  double cores = 0;
  for (int cpu = 0; known && cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, mine)) continue;
    int sharers = 0;
    for (int i = 0; i < session.local_size(); ++i) {
      sharers += CPU_ISSET(cpu, reinterpret_cast<const cpu_set_t*>(memory->of(i))) ? 1 : 0;
    }
    cores += 1.0 / sharers;
  }
  return std::max(1, static_cast<int>(cores + 1e-6));
}

namespace {

DeviceKind choose_device(const Deck& deck, std::string* why) {
  if (deck.device.kind == "cpu") {
    *why = "as the deck says";
    return DeviceKind::cpu;
  }
  const bool present = cuda_device_count() > 0;
  if (deck.device.kind == "cuda" || (present && deck.precision.compute != "fp64")) {
    *why = deck.device.kind == "cuda" ? "as the deck says" : "a GPU is visible";
    return DeviceKind::cuda;
  }
  *why = present ? "fp64 is a CPU precision" : "this build or this node has no GPU";
  return DeviceKind::cpu;
}

constexpr std::size_t k_id_bytes = 64;

// Whether no two ranks of a node compute on one GPU. Counting what is visible is not enough: under `srun
// --gpus-per-task=1` each rank sees one GPU, and each another one.
bool own_gpus(const MpiSession& session) {
  const std::unique_ptr<NodeMemory> memory = session.share_with_node(k_id_bytes);
  const std::string id = cuda_device_id(session.local_rank());
  std::copy_n(reinterpret_cast<const std::byte*>(id.data()), std::min(id.size(), k_id_bytes - 1),
              memory->of(session.local_rank()));
  session.any(false);  // all have written
  bool shared = id.empty();
  for (int i = 0; i < session.local_rank(); ++i) {
    shared = shared || reinterpret_cast<const char*>(memory->of(i)) == id;
  }
  return !session.any(shared);
}

// NCCL needs a GPU of its own for every rank of the node.
bool choose_nccl(const Deck& deck, const MpiSession& session, DeviceKind kind) {
  if (kind == DeviceKind::cpu || deck.device.comm == "mpi") return false;
  if (deck.device.comm == "nccl") return true;
  return own_gpus(session);
}

}  // namespace

Job make_job(const Deck& deck, const MpiSession& session, Recorder* recorder) {
  Job job;
  std::string why;
  job.kind = choose_device(deck, &why);
  const int threads = threads_per_rank(deck.device, session);
  job.host = make_cpu_backend(threads);
  CudaOptions options;
  options.deterministic = deck.device.deterministic;
  options.allow_tf32 = deck.precision.allow_tf32;
  job.backend =
      job.kind == DeviceKind::cpu ? make_cpu_backend(threads) : make_cuda_backend(session.local_rank(), options);
  job.control = session.world(*job.host, Memory::host);
  if (recorder != nullptr) job.control = make_traced_communicator(std::move(job.control), *recorder, "control", 3);
  if (recorder != nullptr && job.kind == DeviceKind::cuda)
    recorder->name_device("GPU " + cuda_device_id(session.local_rank()));
  job.decisions.push_back("device      " + job.backend->describe() + ": " + why);

  if (job.kind == DeviceKind::cuda && deck.data.mask_documents)
    job.decisions.push_back("attention   our own kernels: cuDNN has no mask for documents (data.mask_documents)");

  const bool nccl = choose_nccl(deck, session, job.kind);
  std::unique_ptr<Communicator> world =
      session.world(*job.backend, job.kind == DeviceKind::cpu ? Memory::host : Memory::staged);
  if (nccl) world = make_nccl_communicator(std::move(world), *job.backend);
  if (recorder != nullptr) world = make_traced_communicator(std::move(world), *recorder, "world", 4);
  const char* carrier = nccl ? "NCCL" : job.kind == DeviceKind::cpu ? "MPI" : "MPI, staged through pinned host memory";
  job.decisions.push_back(std::string("messages    ") + (session.size() == 1 ? "none: one rank" : carrier));
  job.grid = std::make_unique<ProcessGrid>(std::move(world), grid_size(deck.parallel, session.size()));
  return job;
}

}  // namespace trireme
