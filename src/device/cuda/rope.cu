// Rotary position embedding in place: a block takes one token, its threads the pairs (i, i + R/2) of all heads.

#include "kernels.cuh"

namespace trireme {

namespace {

template <class T, int N>
__global__ void rope_kernel(T* x, std::int64_t pitch, const std::int32_t* position, const float* table, int n_heads,
                            int head_dim, int half_rotated, float direction) {
  T* const row = x + blockIdx.x * pitch;
  const float* const angles = table + static_cast<std::int64_t>(position[blockIdx.x]) * half_rotated * 2;
  const int per_head = half_rotated / N, n_items = n_heads * per_head;
  for (int item = static_cast<int>(threadIdx.x); item < n_items; item += static_cast<int>(blockDim.x)) {
    const int head = item / per_head, i = (item - head * per_head) * N;
    T* const first = row + static_cast<std::int64_t>(head) * head_dim + i;
    float a[N], b[N], turn[2 * N];
    load<T, N>(a, first);
    load<T, N>(b, first + half_rotated);
    load<float, 2 * N>(turn, angles + 2 * i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float c = turn[2 * j], s = direction * turn[2 * j + 1], a_j = a[j];
      a[j] = a_j * c - b[j] * s;
      b[j] = a_j * s + b[j] * c;
    }
    store<T, N>(first, a);
    store<T, N>(first + half_rotated, b);
  }
}

}  // namespace

void CudaBackend::rope(Tensor x, Tensor position_T, Tensor table, std::int64_t head_dim, bool backward) {
  if (x.rows() == 0) return;
  require(table.dtype == DType::f32 && position_T.dtype == DType::i32, "rope() needs an f32 table and i32 positions");
  const auto half_rotated = static_cast<int>(table.shape[1]);
  const auto n_heads = static_cast<int>(div_exact(x.columns(), head_dim));
  by_storage("rope()", x.dtype, [&](auto t) {
    using T = decltype(t);
    constexpr int wide = k_pack<T>;
    const bool table_aligned = reinterpret_cast<std::uintptr_t>(table.data) % 16 == 0;
    by_width<T>(half_rotated % wide == 0 && head_dim % wide == 0 && table_aligned && in_packs(wide, {x}),
                [&](auto width) {
                  constexpr int n = decltype(width)::value;
                  const int items = n_heads * half_rotated / n;
                  const int threads = static_cast<int>(std::clamp<std::int64_t>(round_up(items, 32), 32, 256));
                  rope_kernel<T, n><<<static_cast<unsigned>(x.rows()), threads, 0, stream_>>>(
                      x.ptr<T>(), x.pitch, position_T.ptr<std::int32_t>(), table.ptr<float>(), n_heads,
                      static_cast<int>(head_dim), half_rotated, backward ? -1.0F : 1.0F);
                });
  });
  check_launch();
}

}  // namespace trireme
