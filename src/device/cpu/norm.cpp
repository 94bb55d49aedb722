// Legend: xhat = (x - mean) rstd for layer norm, x rstd for RMS norm; g = dy gain.

#include <cmath>

#include "cpu_backend.h"
#include "parallel.h"
#include "reduce.h"
#include "storage.h"

namespace trireme::cpu {

namespace {

struct RowStatistics {
  double mean = 0, rstd = 0;
};

template <class R>
double sum_run(const R* x, std::int64_t n) {
  return lane_sum<double>(n, [x](std::int64_t i) { return static_cast<double>(x[i]); });
}

// sum of (x - centre)^2
template <class R>
double square_run(const R* x, double centre, std::int64_t n) {
  return lane_sum<double>(n, [x, centre](std::int64_t i) {
    const double d = static_cast<double>(x[i]) - centre;
    return d * d;
  });
}

template <class R>
RowStatistics statistics(const Tensor& x, std::int64_t row, std::int64_t first, std::int64_t C, NormKind kind,
                         double eps) {
  R buffer[k_block];
  RowStatistics s;
  if (kind == NormKind::layer) {
    for_pieces(C, k_block,
               [&](std::int64_t c, std::int64_t n) { s.mean += sum_run(read(x, row, first + c, n, buffer), n); });
    s.mean /= static_cast<double>(C);
  }
  double squares = 0;
  for_pieces(C, k_block, [&](std::int64_t c, std::int64_t n) {
    squares += square_run(read(x, row, first + c, n, buffer), s.mean, n);
  });
  s.rstd = 1.0 / std::sqrt(squares / static_cast<double>(C) + eps);
  return s;
}

// y = xhat gain + bias for n columns
template <class R>
void normalise(R* y, const R* x, const R* gain, const R* bias, R mean, R rstd, std::int64_t n) {
  if (bias == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * gain[i];
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * gain[i] + bias[i];
}

struct RowSums {
  double g = 0, g_xhat = 0;
};

template <class R>
void add_row_sums(RowSums& sums, const R* dy, const R* x, const R* gain, R mean, R rstd, std::int64_t n) {
  sums.g += lane_sum<double>(n, [=](std::int64_t i) { return static_cast<double>(dy[i] * gain[i]); });
  sums.g_xhat += lane_sum<double>(
      n, [=](std::int64_t i) { return static_cast<double>(dy[i] * gain[i] * ((x[i] - mean) * rstd)); });
}

// dx = rstd (g - mean(g) - xhat mean(g xhat)); rms without mean(g). Added to `old` where that is not null.
template <class R>
void input_gradient(R* dx, const R* old, const R* dy, const R* x, const R* gain, R mean, R rstd, R mean_g,
                    R mean_g_xhat, std::int64_t n) {
  if (old == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      dx[i] = rstd * (dy[i] * gain[i] - mean_g - (x[i] - mean) * rstd * mean_g_xhat);
    }
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    dx[i] = old[i] + rstd * (dy[i] * gain[i] - mean_g - (x[i] - mean) * rstd * mean_g_xhat);
  }
}

template <class R>
R statistic(const Tensor& t, std::int64_t i) {
  return t ? t.ptr<R>()[i] : R(0);
}

template <class R>
void norm_backward_row(const Tensor& dx_TC, const Tensor& dy_TC, const Tensor& x_TC, const Tensor& gain_C, R mean,
                       R rstd, NormKind kind, std::int64_t t) {
  const std::int64_t C = x_TC.columns();
  R dy_buffer[k_block], x_buffer[k_block], gain_buffer[k_block], dx_buffer[k_block];
  RowSums sums;
  for_pieces(C, k_block, [&](std::int64_t c, std::int64_t n) {
    add_row_sums(sums, read(dy_TC, t, c, n, dy_buffer), read(x_TC, t, c, n, x_buffer),
                 read(gain_C, c, 0, n, gain_buffer), mean, rstd, n);
  });
  const R mean_g = kind == NormKind::layer ? static_cast<R>(sums.g / static_cast<double>(C)) : R(0);
  const R mean_g_xhat = static_cast<R>(sums.g_xhat / static_cast<double>(C));
  for_pieces(C, k_block, [&](std::int64_t c, std::int64_t n) {
    const R* old = read(dx_TC, t, c, n, dx_buffer);
    R* dx = target(dx_TC, t, c, dx_buffer);
    input_gradient(dx, old, read(dy_TC, t, c, n, dy_buffer), read(x_TC, t, c, n, x_buffer),
                   read(gain_C, c, 0, n, gain_buffer), mean, rstd, mean_g, mean_g_xhat, n);
    store(dx_TC, t, c, n, dx);
  });
}

constexpr std::int64_t k_strip = 128;  // columns of a parameter gradient that one thread sums at once

// dgain (+)= sum_t dy xhat, dbias (+)= sum_t dy for `n` columns, in the order of t.
template <class R>
void parameter_gradient(const Tensor& dgain_C, const Tensor& dbias_C, const Tensor& dy_TC, const Tensor& x_TC,
                        const Tensor& mean_T, const Tensor& rstd_T, Into into, std::int64_t first, std::int64_t n) {
  double gain_sums[k_strip] = {}, bias_sums[k_strip] = {};
  R dy_buffer[k_strip], x_buffer[k_strip];
  for (std::int64_t t = 0; t < x_TC.rows(); ++t) {
    const R mean = statistic<R>(mean_T, t), rstd = statistic<R>(rstd_T, t);
    const R* dy = read(dy_TC, t, first, n, dy_buffer);
    const R* x = read(x_TC, t, first, n, x_buffer);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      gain_sums[i] += static_cast<double>(dy[i] * ((x[i] - mean) * rstd));
      bias_sums[i] += static_cast<double>(dy[i]);
    }
  }
  std::copy(gain_sums, gain_sums + n, x_buffer);
  store_into(dgain_C, first, 0, n, x_buffer, into);
  std::copy(bias_sums, bias_sums + n, x_buffer);
  if (dbias_C) store_into(dbias_C, first, 0, n, x_buffer, into);
}

}  // namespace

void CpuBackend::norm(Tensor y_TC, Tensor mean_T, Tensor rstd_T, Tensor x_TC, Tensor gain_C, Tensor bias_C,
                      NormKind kind, double eps) {
  const std::int64_t C = x_TC.columns();
  with_real(x_TC.dtype, [&]<class R>(R) {
    for_rows(n_threads_, x_TC.rows(), C, [&](std::int64_t t) {
      const RowStatistics s = statistics<R>(x_TC, t, 0, C, kind, eps);
      const R mean = static_cast<R>(s.mean), rstd = static_cast<R>(s.rstd);
      if (kind == NormKind::layer) mean_T.ptr<R>()[t] = mean;
      rstd_T.ptr<R>()[t] = rstd;
      R x[k_block], gain[k_block], bias[k_block], y[k_block];
      for_pieces(C, k_block, [&](std::int64_t c, std::int64_t n) {
        R* to = target(y_TC, t, c, y);
        normalise(to, read(x_TC, t, c, n, x), read(gain_C, c, 0, n, gain),
                  bias_C ? read(bias_C, c, 0, n, bias) : nullptr, mean, rstd, n);
        store(y_TC, t, c, n, to);
      });
    });
  });
}

void CpuBackend::norm_backward(Tensor dx_TC, Tensor dgain_C, Tensor dbias_C, Tensor dy_TC, Tensor x_TC, Tensor mean_T,
                               Tensor rstd_T, Tensor gain_C, NormKind kind, Into into) {
  const std::int64_t C = x_TC.columns();
  const Tensor mean_used = kind == NormKind::layer ? mean_T : Tensor{};
  with_real(x_TC.dtype, [&]<class R>(R) {
    for_blocks(n_threads_, C, k_strip, [&](std::int64_t first, std::int64_t last) {
      parameter_gradient<R>(dgain_C, dbias_C, dy_TC, x_TC, mean_used, rstd_T, into, first, last - first);
    });
    for_rows(n_threads_, x_TC.rows(), C, [&](std::int64_t t) {
      norm_backward_row<R>(dx_TC, dy_TC, x_TC, gain_C, statistic<R>(mean_used, t), statistic<R>(rstd_T, t), kind, t);
    });
  });
}

void CpuBackend::head_norm(Tensor y, Tensor rstd_TH, Tensor x, Tensor gain_D, double eps) {
  const std::int64_t D = gain_D.count(), H = div_exact(x.columns(), D);
  require(D <= k_block, "head_norm: heads of at most 1024 channels");
  with_real(x.dtype, [&]<class R>(R) {
    for_rows(n_threads_, x.rows(), x.columns(), [&](std::int64_t t) {
      R x_buffer[k_block], gain[k_block], y_buffer[k_block];
      for (std::int64_t h = 0; h < H; ++h) {
        const R rstd = static_cast<R>(statistics<R>(x, t, h * D, D, NormKind::rms, eps).rstd);
        rstd_TH.ptr<R>()[t * H + h] = rstd;
        R* to = target(y, t, h * D, y_buffer);
        normalise(to, read(x, t, h * D, D, x_buffer), read(gain_D, 0, 0, D, gain), static_cast<const R*>(nullptr), R(0),
                  rstd, D);
        store(y, t, h * D, D, to);
      }
    });
  });
}

namespace {

// dgain (+)= sum over t and heads of dy xhat
template <class R>
void head_gain_gradient(const Tensor& dgain_D, const Tensor& dy, const Tensor& x, const Tensor& rstd_TH, Into into,
                        std::int64_t first, std::int64_t n) {
  const std::int64_t D = dgain_D.count(), H = x.columns() / D;
  double sums[k_strip] = {};
  R dy_buffer[k_strip], x_buffer[k_strip];
  for (std::int64_t th = 0; th < x.rows() * H; ++th) {
    const R rstd = rstd_TH.ptr<R>()[th];
    const R* dy_run = read(dy, th / H, th % H * D + first, n, dy_buffer);
    const R* x_run = read(x, th / H, th % H * D + first, n, x_buffer);
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(dy_run[i] * (x_run[i] * rstd));
  }
  std::copy(sums, sums + n, x_buffer);
  store_into(dgain_D, first, 0, n, x_buffer, into);
}

}  // namespace

// dx may be dy: the gain's gradient is taken first, and each head is read before it is written.
void CpuBackend::head_norm_backward(Tensor dx, Tensor dgain_D, Tensor dy, Tensor x, Tensor rstd_TH, Tensor gain_D,
                                    Into into) {
  const std::int64_t D = gain_D.count(), H = div_exact(x.columns(), D);
  require(D <= k_block, "head_norm_backward: heads of at most 1024 channels");
  with_real(x.dtype, [&]<class R>(R) {
    for_blocks(n_threads_, D, k_strip, [&](std::int64_t first, std::int64_t last) {
      head_gain_gradient<R>(dgain_D, dy, x, rstd_TH, into, first, last - first);
    });
    for_rows(n_threads_, x.rows(), x.columns(), [&](std::int64_t t) {
      R dy_buffer[k_block], x_buffer[k_block], gain_buffer[k_block], dx_buffer[k_block];
      const R* gain = read(gain_D, 0, 0, D, gain_buffer);
      for (std::int64_t h = 0; h < H; ++h) {
        const R rstd = rstd_TH.ptr<R>()[t * H + h];
        const R* dy_run = read(dy, t, h * D, D, dy_buffer);
        const R* x_run = read(x, t, h * D, D, x_buffer);
        RowSums sums;
        add_row_sums(sums, dy_run, x_run, gain, R(0), rstd, D);
        R* to = target(dx, t, h * D, dx_buffer);
        input_gradient(to, static_cast<const R*>(nullptr), dy_run, x_run, gain, R(0), rstd, R(0),
                       static_cast<R>(sums.g_xhat / static_cast<double>(D)), D);
        store(dx, t, h * D, D, to);
      }
    });
  });
}

}  // namespace trireme::cpu
