// Legend: gelu_tanh(x) = x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), s the sigmoid: 1 + tanh(u) = 2 s(2u).
// gelu_erf(x) = x Phi(x). swiglu(g, u) = g s(g) u, with g the first and u the second half of a row.

#include "cpu_backend.h"
#include "parallel.h"
#include "storage.h"
#include "vector_math.h"

namespace trireme::cpu {

namespace {

template <class R>
struct GeluTanh {
  static constexpr R slope = R(2 * 0.79788456080286536), cubic = R(0.044715);
  static R value(R x) { return x * vsigmoid(slope * (x + cubic * x * x * x)); }
  static R derivative(R x) {
    const R s = vsigmoid(slope * (x + cubic * x * x * x));
    return s + x * s * (R(1) - s) * slope * (R(1) + R(3) * cubic * x * x);
  }
};

template <class R>
struct GeluErf {
  static R value(R x) { return x * vnormal(x).cdf; }
  static R derivative(R x) {
    const Normal<R> normal = vnormal(x);
    return normal.cdf + x * normal.density;
  }
};

template <class R>
struct ReluSquared {
  static R positive(R x) { return x < R(0) ? R(0) : x; }  // NaN passes
  static R value(R x) { return positive(x) * positive(x); }
  static R derivative(R x) { return R(2) * positive(x); }
};

// f(GeluTanh<R>{}) and so on: the activations of one operand.
template <class R, class F>
void with_function(Activation kind, const F& f) {
  switch (kind) {
    case Activation::gelu_tanh:
      return f(GeluTanh<R>{});
    case Activation::gelu_erf:
      return f(GeluErf<R>{});
    case Activation::relu_squared:
      return f(ReluSquared<R>{});
    case Activation::swiglu:
      break;
  }
  require(false, "an activation of one operand was expected");
}

// f(row, first column, count) over a matrix
template <class F>
void for_tiles(int threads, std::int64_t rows, std::int64_t columns, const F& f) {
  for_rows(threads, rows, columns,
           [&](std::int64_t t) { for_pieces(columns, k_block, [&](std::int64_t c, std::int64_t n) { f(t, c, n); }); });
}

template <class R>
void swiglu_run(const Tensor& y_TF, const Tensor& x, std::int64_t t, std::int64_t c, std::int64_t n) {
  R gate_buffer[k_block], up_buffer[k_block], y_buffer[k_block];
  const R* gate = read(x, t, c, n, gate_buffer);
  const R* up = read(x, t, y_TF.columns() + c, n, up_buffer);
  R* y = target(y_TF, t, c, y_buffer);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = gate[i] * vsigmoid(gate[i]) * up[i];
  store(y_TF, t, c, n, y);
}

// dg = dy u s (1 + g (1 - s)), du = dy g s. dx may be x.
template <class R>
void swiglu_backward_run(const Tensor& dx, const Tensor& dy_TF, const Tensor& x, std::int64_t t, std::int64_t c,
                         std::int64_t n) {
  R gate_buffer[k_block], up_buffer[k_block], dy_buffer[k_block];
  const std::int64_t F = dy_TF.columns();
  const R* gate = read(x, t, c, n, gate_buffer);
  const R* up = read(x, t, F + c, n, up_buffer);
  const R* dy = read(dy_TF, t, c, n, dy_buffer);
  R* dgate = target(dx, t, c, gate_buffer);
  R* dup = target(dx, t, F + c, up_buffer);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const R g = gate[i], u = up[i], s = vsigmoid(g);
    dgate[i] = dy[i] * u * s * (R(1) + g * (R(1) - s));
    dup[i] = dy[i] * g * s;
  }
  store(dx, t, c, n, dgate);
  store(dx, t, F + c, n, dup);
}

}  // namespace

void CpuBackend::activation(Tensor y_TF, Tensor x, Activation kind) {
  with_real(x.dtype, [&]<class R>(R) {
    if (kind == Activation::swiglu) {
      return for_tiles(n_threads_, y_TF.rows(), y_TF.columns(),
                       [&](std::int64_t t, std::int64_t c, std::int64_t n) { swiglu_run<R>(y_TF, x, t, c, n); });
    }
    with_function<R>(kind, [&]<class Function>(Function) {
      for_tiles(n_threads_, x.rows(), x.columns(), [&](std::int64_t t, std::int64_t c, std::int64_t n) {
        R x_buffer[k_block], y_buffer[k_block];
        const R* from = read(x, t, c, n, x_buffer);
        R* y = target(y_TF, t, c, y_buffer);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) y[i] = Function::value(from[i]);
        store(y_TF, t, c, n, y);
      });
    });
  });
}

void CpuBackend::activation_backward(Tensor dx, Tensor dy_TF, Tensor x, Activation kind) {
  with_real(x.dtype, [&]<class R>(R) {
    if (kind == Activation::swiglu) {
      return for_tiles(n_threads_, dy_TF.rows(), dy_TF.columns(), [&](std::int64_t t, std::int64_t c, std::int64_t n) {
        swiglu_backward_run<R>(dx, dy_TF, x, t, c, n);
      });
    }
    with_function<R>(kind, [&]<class Function>(Function) {
      for_tiles(n_threads_, x.rows(), x.columns(), [&](std::int64_t t, std::int64_t c, std::int64_t n) {
        R x_buffer[k_block], dy_buffer[k_block], dx_buffer[k_block];
        const R* from = read(x, t, c, n, x_buffer);
        const R* dy = read(dy_TF, t, c, n, dy_buffer);
        R* to = target(dx, t, c, dx_buffer);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) to[i] = dy[i] * Function::derivative(from[i]);
        store(dx, t, c, n, to);
      });
    });
  });
}

}  // namespace trireme::cpu
