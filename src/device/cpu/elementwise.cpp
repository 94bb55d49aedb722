#include <cmath>
#include <cstring>

#include "cpu_backend.h"
#include "parallel.h"
#include "random.h"
#include "storage.h"

namespace trireme::cpu {

namespace {

// Calls f(row, first column, count) on pieces that cover all elements of tensors of one shape. Where every one of them
// is contiguous, "rows" are single elements (pitch 1) and a piece runs over many of them.
template <class F>
void for_elements(int threads, const Tensor& shape, bool contiguous, const F& f) {
  if (contiguous) {
    for_blocks(threads, shape.count(), 16 * k_block, [&](std::int64_t first, std::int64_t last) {
      for_pieces(last - first, k_block, [&](std::int64_t c, std::int64_t n) { f(first + c, std::int64_t{0}, n); });
    });
    return;
  }
  for_rows(threads, shape.rows(), shape.columns(), [&](std::int64_t r) {
    for_pieces(shape.columns(), k_block, [&](std::int64_t c, std::int64_t n) { f(r, c, n); });
  });
}

// The tensor as for_elements() addresses it.
Tensor addressed(const Tensor& t, bool contiguous) {
  return contiguous ? t.flat() : t;
}

template <class F>
void for_pairs(int threads, const Tensor& a, const Tensor& b, const char* op, const F& f) {
  if (a.count() != b.count()) {
    require(false, std::string(op) + ": the shapes differ: " + to_string(a.shape) + " and " + to_string(b.shape));
  }
  const bool contiguous = a.contiguous() && b.contiguous();
  require(contiguous || (a.rows() == b.rows()), "pitched tensors must have the same rows");
  for_elements(threads, a, contiguous,
               [&, x = addressed(a, contiguous), y = addressed(b, contiguous)](std::int64_t r, std::int64_t c,
                                                                               std::int64_t n) { f(x, y, r, c, n); });
}

template <class T>
void fill_values(const Tensor& t, std::int64_t row, std::int64_t column, std::int64_t n, T value) {
  T* to = address<T>(t, row, column);
  std::fill(to, to + n, value);
}

void fill_run(const Tensor& t, std::int64_t row, std::int64_t column, std::int64_t n, double value) {
  switch (t.dtype) {
    case DType::i64:
      return fill_values(t, row, column, n, static_cast<std::int64_t>(value));
    case DType::i32:
      return fill_values(t, row, column, n, static_cast<std::int32_t>(value));
    case DType::u16:
      return fill_values(t, row, column, n, static_cast<std::uint16_t>(value));
    case DType::u8:
      return fill_values(t, row, column, n, static_cast<std::uint8_t>(value));
    default:
      with_type(t.dtype, [&]<class T>(T) { fill_values(t, row, column, n, narrow<T>(value)); });
  }
}

template <class R>
void add_run(const Tensor& y, const Tensor& x, std::int64_t row, std::int64_t column, std::int64_t n) {
  R x_buffer[k_block], y_buffer[k_block];
  const R* from = read(x, row, column, n, x_buffer);
  const R* old = read(y, row, column, n, y_buffer);
  R* to = target(y, row, column, y_buffer);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = old[i] + from[i];
  store(y, row, column, n, to);
}

// Elements of one row of a normal fill; partners of a pair share their uniforms, logarithm and angle.
void normal_run(const NormalFill& fill, std::uint64_t first, std::int64_t n, double* to) {
  std::int64_t i = 0;
  if (n > 0 && first % 2 == 1) to[i++] = fill.std * random_normal(fill.key, first);
  for (; i + 1 < n; i += 2) {
    const auto [u, v] = random_uniforms(fill.key, first + static_cast<std::uint64_t>(i));
    const double r = std::sqrt(-2.0 * std::log(u)), angle = 6.283185307179586 * v;
    to[i] = fill.std * (r * std::cos(angle));
    to[i + 1] = fill.std * (r * std::sin(angle));
  }
  if (i < n) to[i] = fill.std * random_normal(fill.key, first + static_cast<std::uint64_t>(i));
}

// v += x, where x is there
template <class R>
void add_read(R* v, const Tensor& x, std::int64_t row, std::int64_t column, std::int64_t n) {
  R buffer[k_block];
  const R* from = read(x, row, column, n, buffer);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) v[i] += from[i];
}

}  // namespace

void CpuBackend::fill(Tensor x, double value) {
  const bool contiguous = x.contiguous();
  for_elements(n_threads_, x, contiguous,
               [&, t = addressed(x, contiguous)](std::int64_t r, std::int64_t c, std::int64_t n) {
                 fill_run(t, r, c, n, value);
               });
}

void CpuBackend::fill_normal(Tensor x_RC, const NormalFill& fill) {
  for_rows(n_threads_, x_RC.rows(), x_RC.columns(), [&](std::int64_t r) {
    for_pieces(x_RC.columns(), k_block, [&](std::int64_t c, std::int64_t n) {
      double values[k_block];
      const std::int64_t index = (fill.first_row + r) * fill.global_columns + fill.first_column + c;
      normal_run(fill, static_cast<std::uint64_t>(index), n, values);
      if (x_RC.dtype == DType::f64) return store(x_RC, r, c, n, values);
      float rounded[k_block];
      for (std::int64_t i = 0; i < n; ++i) rounded[i] = static_cast<float>(values[i]);
      store(x_RC, r, c, n, rounded);
    });
  });
}

void CpuBackend::copy(Tensor dst, Tensor src) {
  for_pairs(n_threads_, dst, src, "copy",
            [](const Tensor& to, const Tensor& from, std::int64_t r, std::int64_t c, std::int64_t n) {
              if (to.dtype == from.dtype) {
                const std::size_t size = size_of(to.dtype);
                const auto at = [&](const Tensor& t) {
                  return t.data + static_cast<std::size_t>(r * t.pitch + c) * size;
                };
                std::memmove(at(to), at(from), static_cast<std::size_t>(n) * size);
                return;
              }
              with_real(from.dtype, [&]<class R>(R) {
                R buffer[k_block];
                const R* x = read(from, r, c, n, buffer);
                with_type(to.dtype, [&]<class T>(T) {
                  T* y = address<T>(to, r, c);
#pragma omp simd
                  for (std::int64_t i = 0; i < n; ++i) y[i] = narrow<T>(x[i]);
                });
              });
            });
}

void CpuBackend::add(Tensor y, Tensor x) {
  const bool wide = y.dtype == DType::f64 || x.dtype == DType::f64;
  for_pairs(n_threads_, y, x, "add",
            [wide](const Tensor& to, const Tensor& from, std::int64_t r, std::int64_t c, std::int64_t n) {
              if (wide) return add_run<double>(to, from, r, c, n);
              add_run<float>(to, from, r, c, n);
            });
}

void CpuBackend::scale(Tensor x, double factor) {
  const bool contiguous = x.contiguous();
  with_real(x.dtype, [&]<class R>(R) {
    const R by = static_cast<R>(factor);
    for_elements(n_threads_, x, contiguous,
                 [&, t = addressed(x, contiguous)](std::int64_t r, std::int64_t c, std::int64_t n) {
                   R buffer[k_block];
                   const R* from = read(t, r, c, n, buffer);
                   R* to = target(t, r, c, buffer);
#pragma omp simd
                   for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] * by;
                   store(t, r, c, n, to);
                 });
  });
}

void CpuBackend::dropout_add(Tensor y_TC, Tensor x_TC, Tensor bias_C, Tensor residual_TC, Tensor rows_T, double p,
                             const RandomKey& key) {
  const std::int64_t C = x_TC.columns();
  with_real(x_TC.dtype, [&]<class R>(R) {
    for_rows(n_threads_, x_TC.rows(), C, [&](std::int64_t t) {
      for_pieces(C, k_block, [&](std::int64_t c, std::int64_t n) {
        R x_buffer[k_block], v[k_block];
        const R* x = read(x_TC, t, c, n, x_buffer);
        std::copy(x, x + n, v);
        if (bias_C) add_read(v, bias_C, c, 0, n);
        if (p > 0) drop(v, n, key, rows_T.ptr<std::int64_t>()[t] * C + c, p);
        if (residual_TC) add_read(v, residual_TC, t, c, n);
        store(y_TC, t, c, n, v);
      });
    });
  });
}

void CpuBackend::dropout_backward(Tensor dx_TC, Tensor dy_TC, Tensor rows_T, double p, const RandomKey& key) {
  const std::int64_t C = dy_TC.columns();
  with_real(dy_TC.dtype, [&]<class R>(R) {
    for_rows(n_threads_, dy_TC.rows(), C, [&](std::int64_t t) {
      for_pieces(C, k_block, [&](std::int64_t c, std::int64_t n) {
        R buffer[k_block], v[k_block];
        const R* dy = read(dy_TC, t, c, n, buffer);
        std::copy(dy, dy + n, v);
        if (p > 0) drop(v, n, key, rows_T.ptr<std::int64_t>()[t] * C + c, p);
        store(dx_TC, t, c, n, v);
      });
    });
  });
}

}  // namespace trireme::cpu
