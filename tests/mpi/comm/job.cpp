#include "job.h"

#include <algorithm>
#include <cstring>

#include "catch.h"
#include "trireme/comm/nccl.h"

namespace trireme::test {

namespace {

template <class T>
void store(std::byte* to, double value) {
  const T x = static_cast<T>(value);
  std::memcpy(to, &x, sizeof x);
}

template <class T>
double load(const std::byte* from) {
  T x;
  std::memcpy(&x, from, sizeof x);
  return static_cast<double>(x);
}

void store_as(DType dtype, std::byte* to, double value) {
  if (dtype == DType::f64) store<double>(to, value);
  if (dtype == DType::f32) store<float>(to, value);
  if (dtype == DType::i64) store<std::int64_t>(to, value);
  if (dtype == DType::i32) store<std::int32_t>(to, value);
  if (dtype == DType::bf16) store<std::uint16_t>(to, Bf16(static_cast<float>(value)).bits);
  if (dtype == DType::f16) store<std::uint16_t>(to, F16(static_cast<float>(value)).bits);
  if (dtype == DType::u16) store<std::uint16_t>(to, value);
  if (dtype == DType::u8) store<std::uint8_t>(to, value);
}

double load_as(DType dtype, const std::byte* from) {
  if (dtype == DType::f64) return load<double>(from);
  if (dtype == DType::f32) return load<float>(from);
  if (dtype == DType::i64) return load<std::int64_t>(from);
  if (dtype == DType::i32) return load<std::int32_t>(from);
  if (dtype == DType::u16) return load<std::uint16_t>(from);
  if (dtype == DType::u8) return load<std::uint8_t>(from);
  std::uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  if (dtype == DType::f16) return F16::widen(bits);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace

Job::Job(DeviceKind kind) {
  constexpr std::int64_t piece = 24;  // bytes: three f64, twelve bf16
  if (kind == DeviceKind::cuda) {
    backend = make_cuda_backend(session.local_rank(), {});
    if (session.local_size() <= cuda_device_count())  // NCCL wants a GPU for every rank
      worlds.push_back({"NCCL", make_nccl_communicator(session.world(*backend, Memory::staged), *backend)});
    worlds.push_back({"staged", session.world(*backend, Memory::staged)});
    worlds.push_back({"staged in pieces", session.world(*backend, Memory::staged, piece)});
    return;
  }
  backend = make_cpu_backend(1);
  worlds.push_back({"host", session.world(*backend, Memory::host)});
  worlds.push_back({"staged", session.world(*backend, Memory::staged)});
  worlds.push_back({"host in pieces", session.world(*backend, Memory::host, piece)});
  worlds.push_back({"staged in pieces", session.world(*backend, Memory::staged, piece)});
}

Field::Field(DType dtype, std::int64_t count)
    : tensor_(job().backend->allocate(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * size_of(dtype)),
              dtype, {count}) {}

Field::~Field() {
  job().backend->release(tensor_.data);
}

void Field::set(const std::function<double(std::int64_t)>& value) {
  const std::size_t size = size_of(tensor_.dtype);
  std::vector<std::byte> host(tensor_.bytes());
  for (std::int64_t i = 0; i < tensor_.count(); ++i) {
    store_as(tensor_.dtype, host.data() + static_cast<std::size_t>(i) * size, value(i));
  }
  if (!host.empty()) job().backend->to_device(tensor_, host.data());
}

std::vector<double> Field::get() const {
  return values_of(tensor_);
}

std::vector<double> values_of(const Tensor& x) {
  const std::size_t size = size_of(x.dtype);
  std::vector<std::byte> host(x.bytes());
  if (!host.empty()) job().backend->to_host(host.data(), x);
  return listed(x.count(),
                [&](std::int64_t i) { return load_as(x.dtype, host.data() + static_cast<std::size_t>(i) * size); });
}

std::vector<double> listed(std::int64_t count, const std::function<double(std::int64_t)>& value) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(value(i));
  return values;
}

double number(int rank, std::int64_t i) {
  return static_cast<double>((i * (rank + 1)) % 7 + rank % 5);
}

double sum_of_numbers(int n_ranks, std::int64_t i) {
  double sum = 0;
  for (int rank = 0; rank < n_ranks; ++rank) sum += number(rank, i);
  return sum;
}

double max_of_numbers(int n_ranks, std::int64_t i) {
  double largest = number(0, i);
  for (int rank = 1; rank < n_ranks; ++rank) largest = std::max(largest, number(rank, i));
  return largest;
}

void for_each_case(const std::vector<std::int64_t>& counts,
                   const std::function<void(Communicator&, DType, std::int64_t)>& f) {
  for (const World& world : job().worlds) {
    for (const DType dtype : k_numbers) {
      for (const std::int64_t count : counts) {
        INFO(world.name << ", " << name_of(dtype) << ", " << count << " elements, rank " << world.ranks->rank()
                        << " of " << world.ranks->size());
        f(*world.ranks, dtype, count);
      }
    }
  }
}

}  // namespace trireme::test
