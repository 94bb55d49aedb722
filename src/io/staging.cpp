#include "staging.h"

#include <algorithm>

#include "checksum.h"
#include "trireme/base/check.h"
#include "trireme/io/element.h"

namespace trireme {

namespace {

Tensor memory_of(const Stored& array, const Part& part) {
  return array.pieces[part.piece].data.flat().slice_rows(part.range.first, part.range.count());
}

// Where the part lies in one stretch of the buffer, or -1.
std::int64_t single_place(std::span<const Run> runs) {
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].place != runs[i - 1].place + runs[i - 1].count) return -1;
  }
  return runs.front().place;
}

std::int64_t bytes_of(DType dtype, std::int64_t count) {
  return static_cast<std::int64_t>(size_of(dtype)) * count;
}

}  // namespace

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) backend_.release_pinned(data_);
}

std::byte* HostBuffer::at_least(std::size_t bytes) {
  if (bytes <= size_) return data_;
  if (data_ != nullptr) backend_.release_pinned(data_);
  data_ = nullptr;
  size_ = 0;
  data_ = backend_.allocate_pinned(bytes);
  size_ = bytes;
  return data_;
}

std::byte* Staging::buffer(const Round& round, DType file_dtype) {
  return buffer_.at_least(static_cast<std::size_t>(bytes_of(file_dtype, round.count)));
}

void Staging::from_pieces(const Stored& array, const Round& round, const Runs& runs, DType file_dtype) {
  std::byte* out = buffer(round, file_dtype);
  for (std::size_t i = 0; i < round.parts.size(); ++i) {
    const Tensor memory = memory_of(array, round.parts[i]);
    const std::int64_t place = single_place(runs.of(i));
    if (place >= 0 && memory.dtype == file_dtype) {
      backend_.to_host(out + bytes_of(file_dtype, place), memory);
      continue;
    }
    std::byte* in = bounce_.at_least(memory.bytes());
    backend_.to_host(in, memory);
    for (const Run& run : runs.of(i)) {
      convert(file_dtype, out + bytes_of(file_dtype, run.place), memory.dtype, in + bytes_of(memory.dtype, run.from),
              run.count);
    }
  }
}

std::uint64_t Staging::sum(const Round& round, const Runs& runs, DType file_dtype) {
  const std::byte* data = buffer(round, file_dtype);
  std::uint64_t sum = 0;
  for (const Run& run : runs.all)
    sum += checksum(data + bytes_of(file_dtype, run.place), size_of(file_dtype), run.at, run.count);
  return sum;
}

}  // namespace trireme
