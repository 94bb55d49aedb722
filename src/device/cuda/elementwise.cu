// Operations on every element alone: fill, copy with rounding, add, scale, normal numbers. Bound by memory.

#include <cstring>

#include "kernels.cuh"

namespace trireme {

namespace {

constexpr int k_threads = 256;

// A pitched matrix walked in accesses; contiguous tensors become one row.
struct Walk {
  std::int64_t rows = 1, accesses = 0;  // accesses per row
  constexpr std::int64_t count() const { return rows * accesses; }
};

Walk walk_of(const Tensor& x, const Tensor& y, int n) {
  const bool flat = x.contiguous() && (!y || y.contiguous());
  if (flat) return {1, x.count() / n};
  require(x.rows() * (x.columns() / n) < (std::int64_t{1} << 32),
          "a pitched tensor must have fewer than 2^32 accesses");
  return {x.rows(), x.columns() / n};
}

bool wide_walk(int n, const Tensor& x, const Tensor& y) {
  const bool flat = x.contiguous() && (!y || y.contiguous());
  if (!flat) return in_packs(n, {x, y});
  return x.count() % n == 0 && in_packs(n, {x.flat(), y ? y.flat() : Tensor{}});
}

// Offset of access i in a tensor of this pitch.
template <int N>
__device__ inline std::int64_t offset(std::int64_t i, const Walk& walk, std::int64_t pitch) {
  if (walk.rows == 1) return i * N;
  const auto row = static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(walk.accesses);
  return row * pitch + (i - static_cast<std::int64_t>(row) * walk.accesses) * N;
}

template <class Word>
__global__ void fill_kernel(Word* x, std::int64_t pitch, Walk walk, Word value) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < walk.count(); i += stride)
    x[offset<1>(i, walk, pitch)] = value;
}

enum class Map : std::uint8_t { copy, add };

template <class D, class S, int N>
__global__ void map_kernel(D* y, std::int64_t y_pitch, const S* x, std::int64_t x_pitch, Walk walk, Map map) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < walk.count(); i += stride) {
    D* const at = y + offset<N>(i, walk, y_pitch);
    float a[N], b[N];
    load<S, N>(b, x + offset<N>(i, walk, x_pitch));
    if (map == Map::add) {
      load<D, N>(a, at);
#pragma unroll
      for (int j = 0; j < N; ++j) b[j] += a[j];
    }
    store<D, N>(at, b);
  }
}

template <class T, int N>
__global__ void scale_kernel(T* x, std::int64_t n, float factor) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < n; i += stride) {
    float r[N];
    load<T, N>(r, x + i * N);
#pragma unroll
    for (int j = 0; j < N; ++j) r[j] *= factor;
    store<T, N>(x + i * N, r);
  }
}

// f64 scalars travel with the step (norms, losses): no speed needed.
__global__ void double_kernel(double* y, const double* x, std::int64_t n, double factor) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < n; i += stride)
    y[i] = y[i] * factor + (x == nullptr ? 0.0 : x[i]);
}

template <class T>
__global__ void normal_kernel(T* x, std::int64_t columns, std::int64_t pitch, std::int64_t n, NormalFill fill) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < n; i += stride) {
    const std::int64_t r = i / columns, c = i % columns;
    const auto index = static_cast<std::uint64_t>((fill.first_row + r) * fill.global_columns + fill.first_column + c);
    const UniformPair uniform = random_uniforms(fill.key, index);
    const double radius = sqrt(-2.0 * log(uniform.u)), angle = 6.283185307179586 * uniform.v;
    const double normal = fill.std * (index % 2 == 0 ? radius * cos(angle) : radius * sin(angle));
    if constexpr (std::is_same_v<T, double>) {
      x[r * pitch + c] = normal;
    } else {
      x[r * pitch + c] = from_float<T>(static_cast<float>(normal));
    }
  }
}

int grid_for(std::int64_t n, int multiprocessors) {
  return blocks_for(n, k_threads, std::int64_t{multiprocessors} * 32);
}

// Contiguous tensors need the same number of elements only.
void require_one_shape(const char* op, const Tensor& a, const Tensor& b) {
  const bool fits = a.count() == b.count() && ((a.contiguous() && b.contiguous()) || a.rows() == b.rows());
  require(fits, std::string(op) + " needs tensors of one shape: " + to_string(a.shape) + ", " + to_string(b.shape));
}

template <class Word>
void fill_words(cudaStream_t stream, int multiprocessors, const Tensor& x, const void* pattern) {
  Word value;
  std::memcpy(&value, pattern, sizeof value);
  const auto per_word = static_cast<std::int64_t>(sizeof(Word) / size_of(x.dtype));
  const Walk walk = walk_of(x, {}, static_cast<int>(per_word));
  fill_kernel<Word><<<grid_for(walk.count(), multiprocessors), k_threads, 0, stream>>>(x.ptr<Word>(),
                                                                                       x.pitch / per_word, walk, value);
  check_launch();
}

// `value` in the bits of dtype, repeated over 16 bytes.
std::array<std::byte, 16> pattern_of(DType dtype, double value) {
  std::array<std::byte, 16> pattern{};
  const auto put = [&](auto bits) {
    for (std::size_t i = 0; i < 16; i += sizeof bits) std::memcpy(pattern.data() + i, &bits, sizeof bits);
  };
  switch (dtype) {
    case DType::f64:
      put(value);
      break;
    case DType::f32:
      put(static_cast<float>(value));
      break;
    case DType::bf16:
      put(Bf16(static_cast<float>(value)).bits);
      break;
    case DType::f16:
      put(F16(static_cast<float>(value)).bits);
      break;
    case DType::i64:
      put(static_cast<std::int64_t>(value));
      break;
    case DType::i32:
      put(static_cast<std::int32_t>(value));
      break;
    case DType::u16:
      put(static_cast<std::uint16_t>(value));
      break;
    case DType::u8:
      put(static_cast<std::uint8_t>(value));
      break;
    default:
      refuse("fill()", dtype);
  }
  return pattern;
}

void map(cudaStream_t stream, int multiprocessors, const Tensor& y, const Tensor& x, Map kind) {
  by_storage("copy()", y.dtype, [&](auto d) {
    by_storage("copy()", x.dtype, [&](auto s) {
      using D = decltype(d);
      using S = decltype(s);
      constexpr int n = std::max(k_pack<D>, k_pack<S>);
      const auto run = [&](auto width) {
        constexpr int w = decltype(width)::value;
        const Walk walk = walk_of(y, x, w);
        map_kernel<D, S, w><<<grid_for(walk.count(), multiprocessors), k_threads, 0, stream>>>(
            y.ptr<D>(), y.pitch, x.ptr<S>(), x.pitch, walk, kind);
      };
      if (wide_walk(n, y, x)) {
        run(std::integral_constant<int, n>{});
      } else {
        run(std::integral_constant<int, 1>{});
      }
    });
  });
  check_launch();
}

}  // namespace

void CudaBackend::fill(Tensor x, double value) {
  if (x.count() == 0) return;
  const auto pattern = pattern_of(x.dtype, value);
  const int per_16 = static_cast<int>(16 / size_of(x.dtype));
  if (wide_walk(per_16, x, {})) return fill_words<uint4>(stream_, n_multiprocessors_, x, pattern.data());
  switch (size_of(x.dtype)) {
    case 8:
      return fill_words<std::uint64_t>(stream_, n_multiprocessors_, x, pattern.data());
    case 4:
      return fill_words<std::uint32_t>(stream_, n_multiprocessors_, x, pattern.data());
    case 2:
      return fill_words<std::uint16_t>(stream_, n_multiprocessors_, x, pattern.data());
    default:
      return fill_words<std::uint8_t>(stream_, n_multiprocessors_, x, pattern.data());
  }
}

void CudaBackend::fill_normal(Tensor x, const NormalFill& fill) {
  if (x.count() == 0) return;
  const std::int64_t columns = x.shape.rank == 1 ? x.count() : x.columns();
  const std::int64_t pitch = x.shape.rank == 1 ? x.count() : x.pitch;
  const int grid = grid_for(x.count(), n_multiprocessors_);
  if (x.dtype == DType::f64) {
    normal_kernel<double><<<grid, k_threads, 0, stream_>>>(x.ptr<double>(), columns, pitch, x.count(), fill);
  } else {
    by_storage("fill_normal()", x.dtype, [&](auto t) {
      using T = decltype(t);
      normal_kernel<T><<<grid, k_threads, 0, stream_>>>(x.ptr<T>(), columns, pitch, x.count(), fill);
    });
  }
  check_launch();
}

void CudaBackend::copy(Tensor dst, Tensor src) {
  require_one_shape("copy()", dst, src);
  if (dst.count() == 0) return;
  if (dst.dtype != src.dtype) return map(stream_, n_multiprocessors_, dst, src, Map::copy);
  const std::size_t size = size_of(dst.dtype);
  if (dst.contiguous() && src.contiguous()) {
    check(cudaMemcpyAsync(dst.data, src.data, dst.bytes(), cudaMemcpyDeviceToDevice, stream_));
    return;
  }
  check(cudaMemcpy2DAsync(dst.data, static_cast<std::size_t>(dst.pitch) * size, src.data,
                          static_cast<std::size_t>(src.pitch) * size, static_cast<std::size_t>(dst.columns()) * size,
                          static_cast<std::size_t>(dst.rows()), cudaMemcpyDeviceToDevice, stream_));
}

void CudaBackend::add(Tensor y, Tensor x) {
  require_one_shape("add()", y, x);
  if (y.count() == 0) return;
  if (y.dtype != DType::f64) return map(stream_, n_multiprocessors_, y, x, Map::add);
  require(x.dtype == DType::f64 && y.contiguous() && x.contiguous(), "add() to f64 needs contiguous f64");
  double_kernel<<<grid_for(y.count(), n_multiprocessors_), k_threads, 0, stream_>>>(y.ptr<double>(), x.ptr<double>(),
                                                                                    y.count(), 1.0);
  check_launch();
}

void CudaBackend::scale(Tensor x, double factor) {
  require(x.contiguous(), "scale() needs a contiguous tensor");
  if (x.count() == 0) return;
  if (x.dtype == DType::f64) {
    double_kernel<<<grid_for(x.count(), n_multiprocessors_), k_threads, 0, stream_>>>(x.ptr<double>(), nullptr,
                                                                                      x.count(), factor);
    return check_launch();
  }
  by_storage("scale()", x.dtype, [&](auto t) {
    using T = decltype(t);
    by_width<T>(wide_walk(k_pack<T>, x, {}), [&](auto width) {
      constexpr int n = decltype(width)::value;
      scale_kernel<T, n><<<grid_for(x.count() / n, n_multiprocessors_), k_threads, 0, stream_>>>(
          x.ptr<T>(), x.count() / n, static_cast<float>(factor));
    });
  });
  check_launch();
}

}  // namespace trireme
