#include "trireme/train/energy.h"

#include <algorithm>

namespace trireme {

namespace {

constexpr const char* k_library = "libnvidia-ml.so.1";
constexpr std::size_t k_id_bytes = 64;

}  // namespace

std::unique_ptr<EnergyMeter> meter_of_rank(const MpiSession& session, const std::string& gpu_id, std::string* why_not) {
  const std::unique_ptr<NodeMemory> memory = session.share_with_node(k_id_bytes);
  std::copy_n(reinterpret_cast<const std::byte*>(gpu_id.data()), std::min(gpu_id.size(), k_id_bytes - 1),
              memory->of(session.local_rank()));
  session.any(false);  // all have written
  for (int i = 0; i < session.local_rank(); ++i) {
    if (gpu_id.empty() || reinterpret_cast<const char*>(memory->of(i)) != gpu_id) continue;
    *why_not = "another rank of this node counts this GPU";
    return nullptr;
  }
  return open_energy_meter(gpu_id, k_library, why_not);
}

Energy::Energy(const MpiSession& session, Communicator& control, std::unique_ptr<EnergyMeter> mine)
    : control_(control), meter_(std::move(mine)), measured_(session.any(meter_ != nullptr)) {
  resume();
}

void Energy::pause() {
  if (!meter_) return;
  const double now = meter_->joules();
  sum_ += now - last_;
  last_ = now;
}

void Energy::resume() {
  if (meter_) last_ = meter_->joules();
}

double Energy::take() {
  pause();
  double joules = sum_;
  sum_ = 0;
  control_.all_reduce(Tensor(reinterpret_cast<std::byte*>(&joules), DType::f64, {1}), Reduce::sum);
  return joules;
}

}  // namespace trireme
