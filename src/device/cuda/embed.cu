// Token embedding. Its gradient is made without atomics: tokens are sorted by id (stable), a block adds a run of sorted
// rows, and rows of one id that span blocks meet in a second pass, block by block in order.

#include <cub/device/device_radix_sort.cuh>

#include "kernels.cuh"

namespace trireme {

namespace {

constexpr int k_threads = 256;
constexpr int k_chunk = 32;  // sorted tokens per block

template <class T, int N>
__global__ void embed_kernel(T* y, const T* table, const std::int32_t* ids, std::int64_t n, std::int64_t per_row,
                             std::int64_t first_row, std::int64_t rows, bool add) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < n; i += stride) {
    const std::int64_t t = i / per_row, c = (i - t * per_row) * N, row = ids[t] - first_row;
    const bool here = row >= 0 && row < rows;
    if (!here && add) continue;
    float v[N] = {}, old[N];
    if (here) load<T, N>(v, table + row * per_row * N + c);
    if (add) {
      load<T, N>(old, y + i * N);
#pragma unroll
      for (int j = 0; j < N; ++j) v[j] += old[j];
    }
    store<T, N>(y + i * N, v);
  }
}

// Ids of other ranks get the key `rows`: they sort to the end.
__global__ void key_kernel(std::uint32_t* keys, std::uint32_t* tokens, const std::int32_t* ids, std::int64_t n,
                           std::int64_t first_row, std::int64_t rows) {
  const std::int64_t t = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (t >= n) return;
  const std::int64_t row = ids[t] - first_row;
  keys[t] = static_cast<std::uint32_t>(row >= 0 && row < rows ? row : rows);
  tokens[t] = static_cast<std::uint32_t>(t);
}

template <class G, int N>
__device__ inline void add_to_row(G* dtable, std::int64_t at, const float (&sum)[N]) {
  float old[N];
  load<G, N>(old, dtable + at);
#pragma unroll
  for (int i = 0; i < N; ++i) old[i] += sum[i];
  store<G, N>(dtable + at, old);
}

// Block x takes tokens [32x, 32x + 32) of the sorted order. A run of one id that lies inside goes to the table; the
// parts of runs that began before or go on after go to edge[x][0] (the run that began before) and edge[x][1] (the one
// that goes on).
template <class T, class G, int N>
__global__ void add_runs_kernel(G* dtable, float* edge, const T* dy, const std::uint32_t* keys,
                                const std::uint32_t* tokens, std::int64_t n, std::int64_t columns, std::uint32_t rows) {
  const std::int64_t c = (blockIdx.y * std::int64_t{blockDim.x} + threadIdx.x) * N;
  if (c >= columns) return;
  const std::int64_t first = blockIdx.x * std::int64_t{k_chunk}, last = min(first + k_chunk, n);
  const bool began_before = first > 0 && keys[first - 1] == keys[first];
  const bool goes_on = last < n && keys[last] == keys[last - 1];
  bool first_run = true;
  float sum[N] = {};
#pragma unroll 4
  for (std::int64_t i = first; i < last; ++i) {
    const std::uint32_t key = keys[i];
    if (key == rows) break;
    float v[N];
    load<T, N>(v, dy + tokens[i] * columns + c);
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] += v[j];
    const bool run_ends = i + 1 == last || keys[i + 1] != key;
    if (!run_ends) continue;
    const bool open_left = first_run && began_before, open_right = i + 1 == last && goes_on;
    if (open_left || open_right) {
      store<float, N>(edge + (blockIdx.x * 2 + (open_left ? 0 : 1)) * columns + c, sum);
    } else {
      add_to_row<G, N>(dtable, key * columns + c, sum);
    }
    first_run = false;
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] = 0.0F;
  }
}

// The block in which a spanning run begins adds its parts: its own edge 1, then edge 0 of the blocks that follow.
template <class G, int N>
__global__ void add_edges_kernel(G* dtable, const float* edge, const std::uint32_t* keys, std::int64_t n,
                                 std::int64_t columns, std::uint32_t rows) {
  const std::int64_t c = (blockIdx.y * std::int64_t{blockDim.x} + threadIdx.x) * N;
  const std::int64_t first = blockIdx.x * std::int64_t{k_chunk}, last = min(first + k_chunk, n);
  const std::uint32_t key = keys[last - 1];
  if (c >= columns || key == rows || last >= n || keys[last] != key) return;  // no run goes on from here
  if (first > 0 && keys[first - 1] == key) return;                            // it began in an earlier block
  float sum[N], part[N];
  load<float, N>(sum, edge + (blockIdx.x * 2 + 1) * columns + c);
  for (std::int64_t chunk = blockIdx.x + 1; chunk * k_chunk < n && keys[chunk * k_chunk] == key; ++chunk) {
    load<float, N>(part, edge + chunk * 2 * columns + c);
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] += part[j];
  }
  add_to_row<G, N>(dtable, key * columns + c, sum);
}

// The parts of scratch memory that the sort and the sums need.
struct SortSpace {
  std::uint32_t *keys, *tokens, *sorted_keys, *sorted_tokens;
  float* edge;
  void* sort;
  std::size_t sort_bytes;
};

SortSpace make_space(CudaBackend& backend, std::int64_t n, std::int64_t columns, int bits) {
  SortSpace s{};
  check(cub::DeviceRadixSort::SortPairs(nullptr, s.sort_bytes, s.keys, s.sorted_keys, s.tokens, s.sorted_tokens,
                                        static_cast<int>(n), 0, bits, backend.stream()));
  const std::int64_t list = round_up(n * 4, 256), edges = round_up(div_up(n, k_chunk) * 2 * columns * 4, 256);
  std::byte* at = backend.scratch(static_cast<std::size_t>(4 * list + edges) + s.sort_bytes);
  const auto take = [&](std::int64_t bytes) {
    std::byte* const here = at;
    at += bytes;
    return here;
  };
  s.keys = reinterpret_cast<std::uint32_t*>(take(list));
  s.tokens = reinterpret_cast<std::uint32_t*>(take(list));
  s.sorted_keys = reinterpret_cast<std::uint32_t*>(take(list));
  s.sorted_tokens = reinterpret_cast<std::uint32_t*>(take(list));
  s.edge = reinterpret_cast<float*>(take(edges));
  s.sort = at;
  return s;
}

template <class T, class G, int N>
void add_sorted(cudaStream_t stream, const Tensor& dtable, const Tensor& dy, const SortSpace& s) {
  const std::int64_t n = dy.rows(), columns = dy.columns();
  const auto threads = static_cast<unsigned>(std::min<std::int64_t>(k_threads, round_up(columns / N, 32)));
  const dim3 grid(static_cast<unsigned>(div_up(n, k_chunk)), static_cast<unsigned>(div_up(columns / N, threads)));
  const auto rows = static_cast<std::uint32_t>(dtable.rows());
  add_runs_kernel<T, G, N><<<grid, threads, 0, stream>>>(dtable.ptr<G>(), s.edge, dy.ptr<T>(), s.sorted_keys,
                                                         s.sorted_tokens, n, columns, rows);
  check_launch();
  add_edges_kernel<G, N><<<grid, threads, 0, stream>>>(dtable.ptr<G>(), s.edge, s.sorted_keys, n, columns, rows);
  check_launch();
}

}  // namespace

void CudaBackend::embed(Tensor y, Tensor table, Tensor ids_T, std::int64_t first_row, Into into) {
  require(y.contiguous() && table.contiguous() && y.dtype == table.dtype && ids_T.dtype == DType::i32,
          "embed() needs contiguous tensors of one dtype and i32 ids");
  if (y.count() == 0) return;
  by_storage("embed()", y.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(in_packs(k_pack<T>, {y, table}), [&](auto width) {
      constexpr int n = decltype(width)::value;
      const std::int64_t accesses = y.count() / n;
      embed_kernel<T, n>
          <<<blocks_for(accesses, k_threads, std::int64_t{n_multiprocessors_} * 32), k_threads, 0, stream_>>>(
              y.ptr<T>(), table.ptr<T>(), ids_T.ptr<std::int32_t>(), accesses, y.columns() / n, first_row, table.rows(),
              into == Into::add);
    });
  });
  check_launch();
}

void CudaBackend::embed_backward(Tensor dtable, Tensor dy, Tensor ids_T, std::int64_t first_row) {
  require(dtable.contiguous() && dy.contiguous() && ids_T.dtype == DType::i32 && dy.rows() < (std::int64_t{1} << 31),
          "embed_backward() needs contiguous tensors, i32 ids and fewer than 2^31 tokens");
  require(dtable.dtype == DType::f32 || dtable.dtype == dy.dtype, "dtable must be f32 or of dy's dtype");
  if (dy.count() == 0 || dtable.rows() == 0) return;
  const std::int64_t n = dy.rows();
  const int bits = 64 - __builtin_clzll(static_cast<unsigned long long>(dtable.rows()));
  SortSpace s = make_space(*this, n, dy.columns(), bits);
  key_kernel<<<static_cast<unsigned>(div_up(n, k_threads)), k_threads, 0, stream_>>>(
      s.keys, s.tokens, ids_T.ptr<std::int32_t>(), n, first_row, dtable.rows());
  check_launch();
  check(cub::DeviceRadixSort::SortPairs(s.sort, s.sort_bytes, s.keys, s.sorted_keys, s.tokens, s.sorted_tokens,
                                        static_cast<int>(n), 0, bits, stream_));
  by_storage("embed_backward()", dy.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(in_packs(k_pack<T>, {dtable, dy}), [&](auto width) {
      constexpr int w = decltype(width)::value;
      if (dtable.dtype == DType::f32) {
        add_sorted<T, float, w>(stream_, dtable, dy, s);
      } else {
        add_sorted<T, T, w>(stream_, dtable, dy, s);
      }
    });
  });
}

}  // namespace trireme
