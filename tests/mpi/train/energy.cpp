// Energy over ranks: two of four have a meter, pauses are left out. A program of one test.

#include "trireme/train/energy.h"

#include <cstdio>

#include "trireme/device/backend.h"

namespace {

using namespace trireme;

// 10 J more at every look on rank 0, 100 J on rank 1.
class Counter final : public EnergyMeter {
 public:
  explicit Counter(double step) : step_(step) {}
  double joules() override { return now_ += step_; }

 private:
  double step_, now_ = 5000;
};

int run(const MpiSession& session) {
  const auto backend = make_cpu_backend(1);
  const auto control = session.world(*backend, Memory::host);
  std::unique_ptr<EnergyMeter> meter;
  if (session.rank() < 2) meter = std::make_unique<Counter>(session.rank() == 0 ? 10 : 100);
  Energy energy(session, *control, std::move(meter));

  const double one_look = energy.take();  // from the look of the constructor to this one
  energy.pause();                         // + 1
  energy.resume();                        // left out
  const double two_looks = energy.take();
  Energy none(session, *control, nullptr);

  const double expected = session.size() > 1 ? 110 : 10;
  const bool good = energy.measured() && one_look == expected && two_looks == 2 * expected && !none.measured();
  if (session.rank() == 0) std::printf("%s %g %g\n", good ? "ok" : "FAIL", one_look, two_looks);
  return session.any(!good) ? 1 : 0;
}

}  // namespace

int main() {
  const MpiSession session;
  return run(session);
}
