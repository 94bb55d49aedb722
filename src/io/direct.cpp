#include "direct.h"

#include <algorithm>
#include <cstring>

#include "checksum.h"
#include "trireme/base/check.h"
#include "trireme/io/element.h"

namespace trireme {

namespace {

// Memory that stays in the caches between its checksum and the call that moves it.
constexpr std::int64_t k_cached_bytes = 4 << 20;

std::uint64_t sum_of(const Lines& lines, const std::byte* data, DType dtype) {
  const std::size_t size = size_of(dtype);
  std::uint64_t sum = 0;
  for (const Stretch& stretch : lines.stretches)
    sum += checksum(data + static_cast<std::size_t>(stretch.from) * size, size, stretch.at, stretch.count);
  return sum;
}

Tensor part_of(const Tensor& data, const Range& range) {
  return data.flat().slice_rows(range.first, range.count());
}

std::int64_t slice_of(std::int64_t bytes, DType a, DType b) {
  return std::max<std::int64_t>(1, bytes / static_cast<std::int64_t>(std::max(size_of(a), size_of(b))));
}

bool is_master(const StoredPiece& piece, DType file) {
  return piece.weight && (file == DType::u16) != (piece.data.dtype == DType::u16);
}

}  // namespace

bool can_load(const StoredPiece& piece, DType file) {
  if (is_master(piece, file)) return file == DType::u16 || can_convert(DType::f32, file);
  return can_convert(piece.data.dtype, file);
}

Direct::Direct(DataFiles& files, Backend& backend, std::int64_t slice_bytes)
    : files_(files),
      backend_(backend),
      slice_bytes_(std::min(slice_bytes, backend.host_memory() ? k_cached_bytes : slice_bytes)),
      file_side_(backend),
      memory_side_(backend),
      weights_(backend) {}

Share Direct::write(const Stored& array, const ArrayPlace& place) {
  Share share;
  for (const StoredPiece& piece : array.pieces) {
    const std::int64_t n = piece.writes ? piece.box.count() : 0,
                       step = slice_of(slice_bytes_, place.dtype, piece.data.dtype);
    for (Range range{0, 0}; range.first < n; range.first = range.last) {
      range.last = std::min(n, range.first + step);
      const Tensor memory = part_of(piece.data, range);
      const bool same = memory.dtype == place.dtype;
      const std::byte* host = memory.data;
      if (!backend_.host_memory()) {
        std::byte* copy = memory_side_.at_least(memory.bytes());
        backend_.to_host(copy, memory);
        host = copy;
      }
      if (!same) {
        std::byte* converted = file_side_.at_least(static_cast<std::size_t>(range.count()) * size_of(place.dtype));
        convert(place.dtype, converted, memory.dtype, host, range.count());
        host = converted;
      }
      const Lines lines = lines_of(place, piece.box, range);
      share.sum += sum_of(lines, host, place.dtype);
      share.count += static_cast<std::uint64_t>(lines.count);
      files_.write(lines.segments, host);
    }
  }
  return share;
}

Share Direct::read(const Stored& array, const ArrayPlace& place) {
  Share share;
  for (const StoredPiece& piece : array.pieces) {
    const std::int64_t n = piece.box.count(), step = slice_of(slice_bytes_, place.dtype, piece.data.dtype);
    for (Range range{0, 0}; range.first < n; range.first = range.last) {
      range.last = std::min(n, range.first + step);
      read_slice(piece, range, place, share);
    }
  }
  return share;
}

void Direct::read_slice(const StoredPiece& piece, const Range& range, const ArrayPlace& place, Share& share) {
  const Tensor memory = part_of(piece.data, range);
  const Lines lines = lines_of(place, piece.box, range);
  const bool as_it_is = memory.dtype == place.dtype, here = backend_.host_memory();
  const std::size_t bytes = static_cast<std::size_t>(range.count()) * size_of(place.dtype);
  std::byte* in = as_it_is && here ? memory.data : file_side_.at_least(bytes);
  if (lines.count < range.count()) std::memset(in, 0, bytes);
  files_.read(lines.segments, in);
  if (piece.writes) {
    share.sum += sum_of(lines, in, place.dtype);
    share.count += static_cast<std::uint64_t>(lines.count);
  }
  load_from_host(backend_, piece, range, place.dtype, in, memory_side_, weights_);
}

void load_from_host(Backend& backend, const StoredPiece& piece, const Range& range, DType file, std::byte* in,
                    HostBuffer& values, HostBuffer& weights) {
  const Tensor memory = part_of(piece.data, range);
  if (memory.dtype == file && in == memory.data) return;
  if (memory.dtype == file) return backend.to_device(memory, in);
  std::byte* out = values.at_least(memory.bytes());
  if (!is_master(piece, file)) {
    convert(memory.dtype, out, file, in, range.count());
    return backend.to_device(memory, out);
  }
  const Tensor weight = part_of(piece.weight, range);
  std::byte* weight_bits = weights.at_least(weight.bytes());
  if (file == DType::u16) {
    backend.to_host(weight_bits, weight);
    join_master(memory.dtype, out, weight.dtype, weight_bits, in, range.count());
  } else {
    split_master(out, weight_bits, file, in, range.count());
    backend.to_device(weight, weight_bits);
  }
  backend.to_device(memory, out);
}

}  // namespace trireme
