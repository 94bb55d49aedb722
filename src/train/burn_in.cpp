#include "trireme/train/burn_in.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/base/philox.h"

namespace trireme {

namespace {

constexpr double k_slow = 0.8;  // of the median
constexpr std::size_t k_place_bytes = 160;
constexpr std::int64_t k_period = 251;  // of the pattern that is summed: all sums stay whole numbers in f32

// Memory of the backend that goes back when the test is over.
class Field {
 public:
  Field(Backend& backend, DType dtype, const Shape& shape)
      : backend_(backend),
        tensor_(backend.allocate(static_cast<std::size_t>(shape.count()) * size_of(dtype)), dtype, shape) {}
  ~Field() { backend_.release(tensor_.data); }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;
  const Tensor& operator*() const { return tensor_; }

 private:
  Backend& backend_;
  Tensor tensor_;
};

void set(Backend& backend, const Tensor& to, const std::vector<float>& values) {
  const Field whole(backend, DType::f32, {to.count()});
  backend.to_device(*whole, values.data());
  backend.copy(Tensor(to.data, to.dtype, {to.count()}), *whole);
}

std::vector<float> get(Backend& backend, const Tensor& from) {
  const Field whole(backend, DType::f32, {from.count()});
  backend.copy(*whole, Tensor(from.data, from.dtype, {from.count()}));
  std::vector<float> values(static_cast<std::size_t>(from.count()));
  backend.to_host(values.data(), *whole);
  return values;
}

// Seconds on the device's clock for one round.
double seconds_per_round(Backend& backend, int rounds, const std::function<void()>& work) {
  work();
  backend.synchronize();
  const std::int64_t begin = backend.mark();
  for (int i = 0; i < rounds; ++i) work();
  const std::int64_t end = backend.mark();
  backend.wait(end);
  return std::max(1e-9, (backend.time_of(end) - backend.time_of(begin)) / rounds);
}

// -1, 0 or 1, three quarters of them 0: elements of the product are whole numbers of a size that every number format
// holds exactly, so that a right answer is equal to the last bit, in whatever order it was added.
std::vector<float> sparse_signs(std::int64_t count, std::uint32_t stream) {
  std::vector<float> values(static_cast<std::size_t>(count));
  const RandomKey key{1, stream, 0};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t word = random_word(key, static_cast<std::uint64_t>(i));
    values[static_cast<std::size_t>(i)] = word % 4 != 0 ? 0.0F : (word & 64) != 0 ? 1.0F : -1.0F;
  }
  return values;
}

// y = x w^T is right when y v = x (w^T v) for a vector v of random whole numbers (Freivalds, 1977): n^2 work instead of
// n^3. A single wrong element is always found.
bool is_product(const std::vector<float>& y, const std::vector<float>& x, const std::vector<float>& w, std::int64_t n) {
  std::vector<double> v(static_cast<std::size_t>(n)), wv(v.size(), 0.0);
  const RandomKey key{2, 3, 0};
  for (std::int64_t i = 0; i < n; ++i)
    v[static_cast<std::size_t>(i)] = 1 + random_word(key, static_cast<std::uint64_t>(i)) % 1000;
  const auto at = [n](const std::vector<float>& m, std::int64_t r, std::int64_t c) {
    return static_cast<double>(m[static_cast<std::size_t>(r * n + c)]);
  };
  for (std::int64_t f = 0; f < n; ++f) {
    for (std::int64_t c = 0; c < n; ++c)
      wv[static_cast<std::size_t>(c)] += at(w, f, c) * v[static_cast<std::size_t>(f)];
  }
  for (std::int64_t t = 0; t < n; ++t) {
    double left = 0, right = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      left += at(y, t, i) * v[static_cast<std::size_t>(i)];
      right += at(x, t, i) * wv[static_cast<std::size_t>(i)];
    }
    if (left != right) return false;  // NaN is unequal, too
  }
  return true;
}

// The last product is checked element by element, the ones before by the sum of their squares, which is exact in f64.
void product(Backend& backend, DType dtype, const BurnInSize& size, BurnInResult& result) {
  const std::int64_t n = size.side;
  const std::vector<float> host_x = sparse_signs(n * n, 1), host_w = sparse_signs(n * n, 2);
  const Field x(backend, dtype, {n, n}), w(backend, dtype, {n, n}), y(backend, dtype, {n, n});
  const Field squares(backend, DType::f64, {size.rounds + 1});
  set(backend, *x, host_x), set(backend, *w, host_w);
  const double seconds = seconds_per_round(backend, size.rounds, [&] { backend.matmul(*y, *x, *w, Tensor{}); });
  result.product = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) / seconds;
  backend.fill(*squares, 0);
  for (int i = 0; i <= size.rounds; ++i) {
    backend.matmul(*y, *x, *w, Tensor{});
    backend.sum_of_squares((*squares).slice_rows(i, 1), *y);
  }
  const std::vector<float> host_y = get(backend, *y);
  double expected = 0;
  for (const float value : host_y) expected += static_cast<double>(value) * static_cast<double>(value);
  std::vector<double> found(static_cast<std::size_t>(size.rounds + 1));
  backend.to_host(found.data(), *squares);
  for (const double value : found) result.wrong_product += value == expected ? 0 : 1;
  result.wrong_product += is_product(host_y, host_x, host_w, n) ? 0 : 1;
}

void copies(Backend& backend, const BurnInSize& size, BurnInResult& result) {
  const Field from(backend, DType::f32, {size.elements}), to(backend, DType::f32, {size.elements});
  backend.fill(*from, 1);
  const double seconds = seconds_per_round(backend, size.rounds, [&] { backend.copy(*to, *from); });
  result.copy = 2.0 * static_cast<double>((*from).bytes()) / seconds;
}

// Rank r gives (r + 1) * (1 + i mod k_period): every element of the sum is known.
void sums(Backend& backend, Communicator& world, const BurnInSize& size, BurnInResult& result) {
  const Field x(backend, DType::f32, {size.elements});
  std::vector<float> values(static_cast<std::size_t>(size.elements));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((world.rank() + 1) * (1 + static_cast<std::int64_t>(i) % k_period));
  backend.to_device(*x, values.data());
  world.all_reduce(*x, Reduce::sum);
  backend.to_host(values.data(), *x);
  const std::int64_t n = world.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto expected = static_cast<double>(n * (n + 1) / 2 * (1 + static_cast<std::int64_t>(i) % k_period));
    // Beyond 2^24 a sum in f32 rounds once per hop.
    const double allowed = expected < 16777216 ? 0 : expected * static_cast<double>(n) * 6e-8;
    if (!(std::abs(static_cast<double>(values[i]) - expected) <= allowed)) result.wrong_sum += 1;
  }
}

void ring(Backend& backend, Communicator& world, const BurnInSize& size, BurnInResult& result) {
  if (world.size() == 1) return;
  const Field from(backend, DType::f32, {size.elements}), to(backend, DType::f32, {size.elements});
  backend.fill(*to, 1);
  world.barrier();
  const double seconds = seconds_per_round(backend, size.rounds, [&] { world.shift(*from, *to); });
  result.ring = static_cast<double>((*to).bytes()) / seconds;
}

// Of one kind of result: its range for the summary, and who is slow.
void compare(const std::vector<BurnInResult>& by_rank, const std::vector<std::string>& places,
             double BurnInResult::*kind, const std::string& name, double unit, const std::string& unit_name,
             BurnInVerdict& verdict) {
  std::vector<double> sorted;
  for (const BurnInResult& result : by_rank) sorted.push_back(result.*kind / unit);
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[sorted.size() / 2];
  if (median <= 0) return;
  verdict.summary += (verdict.summary.empty() ? "" : ", ") + name +
                     format(" %.4g to %.4g ", sorted.front(), sorted.back()) + unit_name;
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    const double mine = by_rank[i].*kind / unit;
    if (mine >= k_slow * median) continue;
    verdict.slow.push_back(places[i] + ": " + name + format(" %.4g ", mine) + unit_name +
                           format(", median %.4g", median));
  }
}

template <class T>
std::vector<T> gathered(Communicator& control, DType dtype, const std::vector<T>& mine) {
  const auto n = static_cast<std::int64_t>(mine.size());
  std::vector<T> all(mine.size() * static_cast<std::size_t>(control.size()));
  std::vector<T> part = mine;
  control.all_gather(Tensor(reinterpret_cast<std::byte*>(all.data()), dtype, {n * control.size()}),
                     Tensor(reinterpret_cast<std::byte*>(part.data()), dtype, {n}));
  return all;
}

}  // namespace

BurnInSize burn_in_size(DeviceKind kind) {
  return kind == DeviceKind::cuda ? BurnInSize{4096, 1 << 26, 50} : BurnInSize{512, 1 << 20, 8};
}

BurnInResult burn_in(Backend& backend, Communicator& world, DType dtype, const BurnInSize& size) {
  BurnInResult result;
  product(backend, dtype, size, result);
  copies(backend, size, result);
  sums(backend, world, size, result);
  ring(backend, world, size, result);
  return result;
}

BurnInVerdict judge(const std::vector<BurnInResult>& by_rank, const std::vector<std::string>& places) {
  BurnInVerdict verdict;
  for (std::size_t i = 0; i < by_rank.size(); ++i) {
    if (by_rank[i].wrong_product > 0) verdict.wrong.push_back(places[i] + ": its matrix products are wrong");
    if (by_rank[i].wrong_sum > 0) {
      verdict.wrong.push_back(places[i] +
                              format(": %.0f elements of the sum over all ranks are wrong", by_rank[i].wrong_sum));
    }
  }
  compare(by_rank, places, &BurnInResult::product, "products", 1e12, "TFLOP/s", verdict);
  compare(by_rank, places, &BurnInResult::copy, "copies", 1e9, "GB/s", verdict);
  compare(by_rank, places, &BurnInResult::ring, "to the next rank", 1e9, "GB/s", verdict);
  return verdict;
}

std::vector<BurnInResult> gather(Communicator& control, const BurnInResult& mine) {
  const std::vector<double> numbers =
      gathered<double>(control, DType::f64, {mine.product, mine.copy, mine.ring, mine.wrong_product, mine.wrong_sum});
  std::vector<BurnInResult> all;
  for (std::size_t i = 0; i < numbers.size(); i += 5)
    all.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3], numbers[i + 4]});
  return all;
}

std::vector<std::string> gather(Communicator& control, const std::string& mine) {
  std::vector<std::uint8_t> text(mine.begin(),
                                 mine.begin() + static_cast<std::ptrdiff_t>(std::min(mine.size(), k_place_bytes - 1)));
  text.resize(k_place_bytes, 0);
  const std::vector<std::uint8_t> all = gathered(control, DType::u8, text);
  std::vector<std::string> places;
  for (std::size_t i = 0; i < all.size(); i += k_place_bytes)
    places.emplace_back(reinterpret_cast<const char*>(all.data() + i));
  return places;
}

}  // namespace trireme
