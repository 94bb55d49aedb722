// The burn-in on four ranks: healthy, then with a fault in the device or on the wires of one rank, which must be named.

#include "trireme/train/burn_in.h"

#include <chrono>
#include <cstdio>
#include <thread>

#include "device/cpu/cpu_backend.h"
#include "trireme/base/log.h"
#include "trireme/comm/mpi.h"

namespace {

using namespace trireme;

constexpr BurnInSize k_size{64, 4096, 3};

enum class Fault { none, product, once, slow, sum };

// A CPU that computes one element wrongly, always or in one product of many, or copies slowly.
class FaultyBackend final : public cpu::CpuBackend {
 public:
  explicit FaultyBackend(Fault fault) : CpuBackend(1), fault_(fault) {}
  void matmul(Tensor y, Tensor x, Tensor w, Tensor bias) override {
    CpuBackend::matmul(y, x, w, bias);
    if (fault_ == Fault::product || (fault_ == Fault::once && ++n_ == 6)) y.ptr<float>()[1234] += 1;
  }
  void copy(Tensor to, Tensor from) override {
    CpuBackend::copy(to, from);
    if (fault_ == Fault::slow) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }

 private:
  Fault fault_;
  int n_ = 0;
};

// Wires that lose a bit of what they sum.
class FaultyWires final : public Communicator {
 public:
  FaultyWires(Communicator& inner, Fault fault) : inner_(inner), fault_(fault) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void all_reduce(Tensor x, Reduce op) override {
    inner_.all_reduce(x, op);
    if (fault_ == Fault::sum) x.ptr<float>()[77] += 1;
  }
  void all_gather(Tensor all, Tensor mine) override { inner_.all_gather(all, mine); }
  void reduce_scatter(Tensor mine, Tensor all) override { inner_.reduce_scatter(mine, all); }
  void broadcast(Tensor x, int root) override { inner_.broadcast(x, root); }
  void shift(Tensor from, Tensor to) override { inner_.shift(from, to); }
  void send(Tensor x, int to) override { inner_.send(x, to); }
  void recv(Tensor x, int from) override { inner_.recv(x, from); }
  void barrier() override { inner_.barrier(); }
  Ticket background(const std::function<void(Communicator&)>& work) override { return inner_.background(work); }
  std::unique_ptr<Communicator> split(int color, int key) override { return inner_.split(color, key); }

 private:
  Communicator& inner_;
  Fault fault_;
};

int failures = 0;

void expect(const MpiSession& session, const std::string& name, bool good, const BurnInVerdict& verdict) {
  failures += good ? 0 : 1;
  if (session.rank() != 0) return;
  std::printf("%s %s: %s\n", good ? "ok  " : "FAIL", name.c_str(), verdict.summary.c_str());
  for (const std::string& text : verdict.wrong) std::printf("     wrong: %s\n", text.c_str());
  for (const std::string& text : verdict.slow) std::printf("     slow: %s\n", text.c_str());
}

BurnInVerdict verdict_with(const MpiSession& session, Fault fault, int on, DType dtype) {
  const Fault mine = session.rank() == on ? fault : Fault::none;
  FaultyBackend backend(mine);
  const auto world = session.world(backend, Memory::host);
  FaultyWires wires(*world, mine);
  const BurnInResult result = burn_in(backend, wires, dtype, k_size);
  return judge(gather(*world, result),
               gather(*world, format("rank %d on here, device %d", session.rank(), session.rank())));
}

bool only(const std::vector<std::string>& texts, const std::string& beginning) {
  return texts.size() == 1 && texts[0].find(beginning) == 0;
}

void with_ranks(const MpiSession& session) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const BurnInVerdict healthy = verdict_with(session, Fault::none, 0, dtype);
    expect(session, "healthy", healthy.wrong.empty() && healthy.summary.find("products") != std::string::npos, healthy);
  }
  const BurnInVerdict product = verdict_with(session, Fault::product, 2, DType::f32);
  expect(session, "one wrong element", only(product.wrong, "rank 2 on here, device 2: its matrix products"), product);
  const BurnInVerdict once = verdict_with(session, Fault::once, 1, DType::f32);
  expect(session, "one wrong element in one of many", only(once.wrong, "rank 1 on here, device 1: its matrix"), once);
  const BurnInVerdict sum = verdict_with(session, Fault::sum, 3, DType::f32);
  expect(session, "a wrong sum", only(sum.wrong, "rank 3 on here, device 3: 1 elements of the sum"), sum);
  const BurnInVerdict slow = verdict_with(session, Fault::slow, 2, DType::f32);
  bool named = false;
  for (const std::string& text : slow.slow) named = named || text.find("rank 2 on here, device 2: copies") == 0;
  expect(session, "slow copies", named && slow.wrong.empty(), slow);
}

void judgements(const MpiSession& session) {
  const std::vector<std::string> places{"a", "b", "c", "d"};
  std::vector<BurnInResult> equal(4, {1e12, 1e9, 1e9, 0, 0});
  equal[3].product = 0.81e12;  // within a fifth
  expect(session, "small differences accuse nobody", judge(equal, places).slow.empty(), judge(equal, places));
  equal[1].ring = 0.5e9;
  expect(session, "half the rate is named", only(judge(equal, places).slow, "b: to the next rank 0.5 GB/s, median 1"),
         judge(equal, places));
}

}  // namespace

int main() {
  const MpiSession session;
  try {
    with_ranks(session);
    judgements(session);
    return session.any(failures > 0) ? 1 : 0;
  } catch (const std::exception& error) {
    session.abort(1, error.what());
  }
}
