// Reductions over whole tensors, and AdamW.

#include <cmath>

#include "cpu_backend.h"
#include "parallel.h"
#include "reduce.h"
#include "storage.h"
#include "trireme/base/philox.h"

namespace trireme::cpu {

namespace {

constexpr std::int64_t k_part = 16 * k_block;  // elements of one partial sum: fixed, whatever the threads

// out += sum of f over x, in double; partial sums are added in their order.
template <class F>
void reduce(Workspace& workspace, int threads, const Tensor& out_1, const Tensor& x, const F& f) {
  if (x.count() == 0) return;
  const Tensor flat = x.flat();
  const std::int64_t n_parts = div_up(x.count(), k_part);
  auto* parts = workspace.get<double>(Slot::partial, n_parts);
  with_real(x.dtype, [&]<class R>(R) {
    for_blocks(threads, x.count(), k_part, [&](std::int64_t first, std::int64_t last) {
      double part = 0;
      R buffer[k_block];
      for_pieces(last - first, k_block,
                 [&](std::int64_t c, std::int64_t n) { part += f(read(flat, first + c, 0, n, buffer), n); });
      parts[first / k_part] = part;
    });
  });
  double total = 0;
  for (std::int64_t i = 0; i < n_parts; ++i) total += parts[i];
  *out_1.ptr<double>() += total;
}

// What every element of one update shares.
template <class R>
struct Update {
  R beta1, beta2, lr, eps, decay, gradient, inverse1, inverse2;

  Update(const AdamWStep& step, double norm_sq)
      : beta1(static_cast<R>(step.beta1)),
        beta2(static_cast<R>(step.beta2)),
        lr(static_cast<R>(step.lr)),
        eps(static_cast<R>(step.eps)),
        decay(static_cast<R>(step.weight_decay)) {
    const double norm = step.grad_scale * std::sqrt(norm_sq);
    const double factor = step.clip > 0 ? std::fmin(1.0, step.clip / (norm + 1e-6)) : 1.0;
    gradient = static_cast<R>(step.grad_scale * factor);
    inverse1 = static_cast<R>(1.0 / (1.0 - std::pow(step.beta1, static_cast<double>(step.t))));
    inverse2 = static_cast<R>(1.0 / (1.0 - std::pow(step.beta2, static_cast<double>(step.t))));
  }
};

template <class R>
void update_run(const Update<R>& u, R* p, R* m, R* v, const R* grad, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const R g = grad[i] * u.gradient;
    m[i] = u.beta1 * m[i] + (R(1) - u.beta1) * g;
    v[i] = u.beta2 * v[i] + (R(1) - u.beta2) * (g * g);
    const R step = m[i] * u.inverse1 / (std::sqrt(v[i] * u.inverse2) + u.eps);
    p[i] = p[i] - u.lr * (step + u.decay * p[i]);
  }
}

// Which 16 random bits round what: the halves of one word, and a word of the next stream.
enum class Bits : std::uint8_t { m, v, param };

// Rounds up with the probability of the part cut off.
std::uint16_t round_randomly(float x, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000U) == 0x7f800000U) return Bf16::round(x);
  return static_cast<std::uint16_t>((bits + (random & 0xffffU)) >> 16);
}

template <class R>
void store_rounded(const Tensor& t, std::int64_t first, std::int64_t n, const R* from, const AdamWStep& step,
                   Bits which) {
  if (t.dtype != DType::bf16) return store(t, first, 0, n, from);
  auto* to = t.ptr<std::uint16_t>() + first;
  RandomKey key = step.rounding;
  if (which == Bits::param) ++key.stream;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t word = random_word(key, static_cast<std::uint64_t>(step.first_index + first + i));
    to[i] = round_randomly(static_cast<float>(from[i]), which == Bits::v ? word >> 16 : word);
  }
}

// master bits = param bits * 65536 + remainder, the remainder a signed 16-bit number: param is the master rounded to
// nearest, ties away from zero (a tie to even would not fit 16 bits).
void read_split(float* p, const Tensor& param, const Tensor& remainder, std::int64_t first, std::int64_t n) {
  const auto* high = param.ptr<std::uint16_t>() + first;
  const auto* low = remainder.ptr<std::uint16_t>() + first;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto rest = static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int16_t>(low[i])));
    p[i] = std::bit_cast<float>((static_cast<std::uint32_t>(high[i]) << 16) + rest);
  }
}

void store_split(const Tensor& param, const Tensor& remainder, std::int64_t first, std::int64_t n, const float* p) {
  auto* high = param.ptr<std::uint16_t>() + first;
  auto* low = remainder.ptr<std::uint16_t>() + first;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(p[i]);
    high[i] = static_cast<std::uint16_t>((bits + 0x8000U) >> 16);
    low[i] = static_cast<std::uint16_t>(bits);
  }
}

template <class R>
void adamw_run(const AdamWTensors& a, const AdamWStep& step, const Update<R>& update, std::int64_t first,
               std::int64_t n) {
  R p_buffer[k_block], m_buffer[k_block], v_buffer[k_block], g_buffer[k_block];
  const bool split = a.master && a.master.dtype == DType::u16;
  const Tensor& source = a.master && !split ? a.master : a.param;
  R* p = split ? p_buffer : target(source, first, 0, p_buffer);
  if constexpr (std::is_same_v<R, float>) {
    if (split) read_split(p, a.param, a.master, first, n);
  }
  if (!split) read(source, first, 0, n, p);
  read(a.m, first, 0, n, m_buffer);
  read(a.v, first, 0, n, v_buffer);
  R *m = target(a.m, first, 0, m_buffer), *v = target(a.v, first, 0, v_buffer);
  update_run(update, p, m, v, read(a.grad, first, 0, n, g_buffer), n);
  store_rounded(a.m, first, n, m, step, Bits::m);
  store_rounded(a.v, first, n, v, step, Bits::v);
  if constexpr (std::is_same_v<R, float>) {
    if (split) return store_split(a.param, a.master, first, n, p);
  }
  if (!a.master) return store_rounded(a.param, first, n, p, step, Bits::param);
  store(a.master, first, 0, n, p);
  store(a.param, first, 0, n, p);
}

}  // namespace

void CpuBackend::sum(Tensor out_1, Tensor x) {
  reduce(workspace_, n_threads_, out_1, x, [](const auto* values, std::int64_t n) {
    return lane_sum<double>(n, [values](std::int64_t i) { return static_cast<double>(values[i]); });
  });
}

void CpuBackend::sum_of_squares(Tensor out_1, Tensor x) {
  reduce(workspace_, n_threads_, out_1, x, [](const auto* values, std::int64_t n) {
    return lane_sum<double>(n, [values](std::int64_t i) {
      const double x = static_cast<double>(values[i]);
      return x * x;
    });
  });
}

void CpuBackend::adamw(const AdamWTensors& tensors, const AdamWStep& step, Tensor norm_sq_1) {
  const double norm_sq = *norm_sq_1.ptr<double>();
  if (!std::isfinite(norm_sq)) return;
  AdamWTensors flat = tensors;
  for (Tensor* t : {&flat.param, &flat.master, &flat.m, &flat.v, &flat.grad}) {
    if (*t) *t = t->flat();
  }
  const bool separate = tensors.master && tensors.master.dtype != DType::u16;
  with_real((separate ? tensors.master : tensors.param).dtype, [&]<class R>(R) {
    const Update<R> update(step, norm_sq);
    for_blocks(n_threads_, tensors.param.count(), k_part, [&](std::int64_t first, std::int64_t last) {
      for_pieces(last - first, k_block,
                 [&](std::int64_t c, std::int64_t n) { adamw_run<R>(flat, step, update, first + c, n); });
    });
  });
}

}  // namespace trireme::cpu
