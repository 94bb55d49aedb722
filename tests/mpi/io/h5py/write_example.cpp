// Writes a small checkpoint of known numbers for read_example.py: write_example FILE

#include <cmath>

#include "trireme/comm/mpi.h"
#include "trireme/io/checkpoint.h"

using namespace trireme;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  MpiSession session;
  const auto backend = make_cpu_backend(1);
  const auto world = session.world(*backend, Memory::host);
  const Shape shape{2, 3, 4};
  std::vector<float> values(24);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(static_cast<float>(i) - 7.5F, static_cast<int>(i % 5) - 2);
  std::vector<Stored> arrays;
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Range rows = cut(2, session.size(), session.rank());
    Stored stored{std::string("/param/") + name_of(dtype), shape, dtype, {}, "h.0.w\nh.1.w", {}, 0, ""};
    const Tensor memory(reinterpret_cast<std::byte*>(values.data()), DType::f32, shape);
    if (rows.count() > 0)
      stored.pieces.push_back(
          {{{rows.first, 0, 0}, {rows.count(), 3, 4}}, memory.slice_rows(rows.first, rows.count()), true, {}});
    arrays.push_back(stored);
  }
  save_checkpoint(argv[1], arrays, {{"step", "100"}, {"loss_scale", "0.5"}}, *world, *backend, {});
  return 0;
}
