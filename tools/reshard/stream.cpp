#include "stream.h"

#include <algorithm>

#include "trireme/base/check.h"
#include "trireme/io/element.h"

namespace trireme::reshard {

namespace {

constexpr std::int64_t k_bytes_per_element = 8 + 8 + 8;  // input, second input and output, at most

// Elements that a rank handles at a time: whole rows where that is possible, so that blocks are filled evenly.
std::int64_t elements_at_once(const Shape& shape, std::int64_t memory) {
  const std::int64_t most = std::max<std::int64_t>(1, memory / k_bytes_per_element);
  const std::int64_t row = shape[shape.rank - 1];
  return most >= row ? most / row * row : most;
}

std::int64_t count_in(const CheckpointReader& in, const std::string& path) {
  return count_of(*in.find(path));
}

// Reads what there is of [part); elements beyond the array (padding) are zero. Returns the share of the checksum.
std::uint64_t read_padded(CheckpointReader& in, const std::string& path, const Range& part,
                          std::vector<std::byte>& data, DType& dtype) {
  const ArrayInfo& array = *in.find(path);
  dtype = array.dtype;
  const std::int64_t n = std::clamp<std::int64_t>(count_of(array) - part.first, 0, part.count());
  data.resize(static_cast<std::size_t>(part.count()) * size_of(dtype));
  std::fill(data.begin() + n * static_cast<std::int64_t>(size_of(dtype)), data.end(), std::byte{0});
  if (n == 0) return 0;
  in.read(path, {part.first, part.first + n}, data.data());
  return checksum_share(dtype, data.data(), part.first, n);
}

struct Buffers {
  std::vector<std::byte> source, second, out, other;
};

void make(const Recipe& recipe, DType target, DType source, DType, const Range& part, Buffers& b) {
  const std::int64_t n = part.count();
  b.out.resize(static_cast<std::size_t>(n) * size_of(target));
  b.other.resize(recipe.making == Making::weight || recipe.making == Making::remainder
                     ? static_cast<std::size_t>(n) * sizeof(std::uint16_t)
                     : 0);
  switch (recipe.making) {
    case Making::convert:
      return convert(target, b.out.data(), source, b.source.data(), n);
    case Making::join:
      return join_master(target, b.out.data(), source, b.source.data(), b.second.data(), n);
    case Making::weight:
      return split_master(b.other.data(), b.out.data(), source, b.source.data(), n);
    case Making::remainder:
      return split_master(b.out.data(), b.other.data(), source, b.source.data(), n);
  }
}

}  // namespace

InputSums stream(CheckpointReader& in, CheckpointWriter& out, const Plan& plan, const Share& share,
                 const std::function<void(double)>& progress) {
  InputSums sums{std::vector<std::uint64_t>(plan.recipes.size()), std::vector<std::uint64_t>(plan.recipes.size())};
  Buffers buffers;
  for (const Recipe& recipe : plan.recipes) {
    const Stored& target = plan.targets[recipe.target];
    const std::int64_t n = target.global.count(), step = elements_at_once(target.global, share.memory);
    const Range mine = cut(div_up(n, step), share.n_ranks, share.rank);
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      const Range part{i * step, std::min(n, (i + 1) * step)};
      DType source = DType::f32, second = DType::u16;
      sums.source[recipe.target] += read_padded(in, recipe.source, part, buffers.source, source);
      if (!recipe.second.empty())
        sums.second[recipe.target] += read_padded(in, recipe.second, part, buffers.second, second);
      make(recipe, target.dtype, source, second, part, buffers);
      out.write(recipe.target, part, buffers.out.data());
      progress(static_cast<double>(buffers.out.size()));
    }
  }
  return sums;
}

std::vector<std::uint64_t> sums_of(CheckpointReader& file, const Share& share) {
  std::vector<std::uint64_t> sums;
  std::vector<std::byte> data;
  for (const ArrayInfo& array : file.arrays()) {
    const std::int64_t n = count_of(array), step = std::max<std::int64_t>(1, share.memory / 8);
    const Range mine = cut(div_up(n, step), share.n_ranks, share.rank);
    sums.push_back(0);
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      const Range part{i * step, std::min(n, (i + 1) * step)};
      data.resize(static_cast<std::size_t>(part.count()) * size_of(array.dtype));
      file.read(array.path, part, data.data());
      sums.back() += checksum_share(array.dtype, data.data(), part.first, part.count());
    }
  }
  return sums;
}

void require_good_input(const CheckpointReader& in, const std::string& path, const Plan& plan, const InputSums& sums) {
  std::string damaged;
  const auto check = [&](const Recipe& recipe, const std::string& source, std::uint64_t sum) {
    if (source.empty()) return;
    const ArrayInfo& array = *in.find(source);
    const std::int64_t here = plan.targets[recipe.target].global.count();
    if (count_in(in, source) > here) sum += checksum_of_zeros(array.dtype, here, count_in(in, source) - here);
    if (checksum_text(sum) != array.checksum)
      damaged += "\n  " + source + " has the checksum " + checksum_text(sum) + ", expected " + array.checksum;
  };
  for (const Recipe& recipe : plan.recipes) {
    check(recipe, recipe.source, sums.source[recipe.target]);
    check(recipe, recipe.second, sums.second[recipe.target]);
  }
  if (!damaged.empty())
    throw Damaged(Exit::data, path + " is damaged; use an older checkpoint or another copy of this one:" + damaged);
}

}  // namespace trireme::reshard
