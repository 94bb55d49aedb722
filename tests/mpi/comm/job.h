#pragma once
// What every test here needs: the session, a backend and the same world in several makings; plus tensors of small
// integers that are set and read through the backend. Every rank runs every test, so a test never returns early on some
// ranks.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/mpi.h"
#include "trireme/device/backend.h"

namespace trireme::test {

struct World {
  std::string name;
  std::unique_ptr<Communicator> ranks;
};

struct Job {
  MpiSession session;
  std::unique_ptr<Backend> backend;
  std::vector<World> worlds;  // of the device: see the constructor

  // cpu: host and staged memory, whole and cut into pieces of a few elements. cuda: NCCL, then MPI staged through
  // pinned memory, whole and in pieces.
  explicit Job(DeviceKind kind);
  Communicator& world() { return *worlds.front().ranks; }
};
Job& job();  // made by main()

inline const std::vector<DType> k_numbers{DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32, DType::i64};

// A tensor with memory of its own.
class Field {
 public:
  Field(DType dtype, std::int64_t count);
  ~Field();
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  const Tensor& tensor() const { return tensor_; }
  Tensor part(std::int64_t i, std::int64_t n) const { return tensor_.slice_rows(i * n, n); }  // i-th run of n elements
  void set(const std::function<double(std::int64_t)>& value);
  std::vector<double> get() const;

 private:
  Tensor tensor_;
};

std::vector<double> values_of(const Tensor& x);
std::vector<double> listed(std::int64_t count, const std::function<double(std::int64_t)>& value);

// Element i of rank r: sums over 16 ranks and all partial sums are exact in bf16.
double number(int rank, std::int64_t i);
double sum_of_numbers(int n_ranks, std::int64_t i);
double max_of_numbers(int n_ranks, std::int64_t i);

// Calls f for every world, dtype and count.
void for_each_case(const std::vector<std::int64_t>& counts,
                   const std::function<void(Communicator&, DType, std::int64_t)>& f);

}  // namespace trireme::test
