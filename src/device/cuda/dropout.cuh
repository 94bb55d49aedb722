#pragma once
// Which elements dropout keeps: a function of (key, global row, column), drawn four at a time where the columns allow
// it.

#include <cmath>

#include "trireme/base/check.h"
#include "trireme/base/philox.h"
#include "trireme/device/tensor.h"

namespace trireme {

struct Dropout {
  RandomKey key;
  const std::int64_t* rows_T = nullptr;
  std::int64_t columns = 0;
  std::uint64_t threshold = 0;  // words below it are dropped; 0: no dropout
  float keep_scale = 1.0F;

  // x[i] is element (row, column + i).
  template <int N>
  __device__ void apply(float (&x)[N], std::int64_t row, std::int64_t column) const {
    if (threshold == 0) return;
    const auto first = static_cast<std::uint64_t>(rows_T[row] * columns + column);
    if constexpr (N == 1) {
      x[0] = random_word(key, first) >= threshold ? x[0] * keep_scale : 0.0F;
    } else {
#pragma unroll
      for (int group = 0; group < N / 4; ++group) {
        const Philox4 words = random_words(key, first / 4 + group);
#pragma unroll
        for (int i = 0; i < 4; ++i) x[group * 4 + i] = words.x[i] >= threshold ? x[group * 4 + i] * keep_scale : 0.0F;
      }
    }
  }
};

inline Dropout make_dropout(const Tensor& rows_T, std::int64_t columns, double p, const RandomKey& key) {
  Dropout dropout;
  if (p == 0.0) return dropout;
  require(rows_T && rows_T.dtype == DType::i64, "dropout with p > 0 needs the global row numbers as i64");
  dropout.key = key;
  dropout.rows_T = rows_T.ptr<std::int64_t>();
  dropout.columns = columns;
  dropout.threshold = static_cast<std::uint64_t>(std::ceil(p * 4294967296.0));
  dropout.keep_scale = static_cast<float>(1.0 / (1.0 - p));
  return dropout;
}

}  // namespace trireme
