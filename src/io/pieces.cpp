#include "pieces.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/check.h"

namespace trireme {

namespace {

bool starts_before(const Box& a, const Box& b) {
  return a.offset.dim < b.offset.dim;
}

// True when b continues a along dimension d and both agree in all others.
bool continues(const Box& a, const Box& b, int d) {
  for (int i = 0; i < a.extent.rank; ++i) {
    if (i != d && (a.offset[i] != b.offset[i] || a.extent[i] != b.extent[i])) return false;
  }
  return a.offset[d] + a.extent[d] == b.offset[d];
}

// Boxes that continue each other along d become one. Sorted so that candidates are neighbours.
void merge_along(std::vector<Box>& boxes, int d) {
  std::sort(boxes.begin(), boxes.end(), [d](Box a, Box b) {
    std::swap(a.offset.dim[static_cast<std::size_t>(d)], a.offset.dim.back());
    std::swap(b.offset.dim[static_cast<std::size_t>(d)], b.offset.dim.back());
    return starts_before(a, b);
  });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < boxes.size(); ++i) {
    if (continues(boxes[kept], boxes[i], d)) {
      boxes[kept].extent[d] += boxes[i].extent[d];
    } else {
      boxes[++kept] = boxes[i];
    }
  }
  if (!boxes.empty()) boxes.resize(kept + 1);
}

// Appends the runs of one box; `from` counts the elements of the part that came before.
void append_runs(std::vector<Run>& runs, const Shape& global, const Box& box, std::int64_t& from) {
  int d = global.rank - 1;  // the outermost dimension that a run covers
  std::int64_t stride = 1;  // of dimension d
  for (; d > 0 && box.extent[d] == global[d]; --d) stride *= global[d];
  const std::int64_t length = box.extent[d] * stride, n_runs = box.count() / length;
  for (std::int64_t i = 0; i < n_runs; ++i) {
    std::int64_t at = box.offset[d] * stride, rest = i, step = stride;
    for (int outer = d - 1; outer >= 0; --outer) {
      step *= global[outer + 1];
      at += (box.offset[outer] + rest % box.extent[outer]) * step;
      rest /= box.extent[outer];
    }
    runs.push_back({at, length, from, 0});
    from += length;
  }
}

// Places in file order; returns them sorted so that the caller can check for overlaps.
void set_places(Runs& runs, const std::string& path) {
  std::vector<std::size_t> order(runs.all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto before = [&](std::size_t a, std::size_t b) { return runs.all[a].at < runs.all[b].at; };
  if (!std::is_sorted(order.begin(), order.end(), before)) std::sort(order.begin(), order.end(), before);
  std::int64_t place = 0, end = 0;
  for (const std::size_t i : order) {
    require(runs.all[i].at >= end, path + ": pieces of one rank overlap");
    runs.all[i].place = place;
    place += runs.all[i].count;
    end = runs.all[i].at + runs.all[i].count;
  }
}

}  // namespace

void require_piece(const Stored& array, const StoredPiece& piece) {
  const Shape &offset = piece.box.offset, &extent = piece.box.extent, &global = array.global;
  bool inside = extent.rank == global.rank && offset.rank == global.rank;
  for (int d = 0; inside && d < global.rank; ++d) {
    inside = offset[d] >= 0 && extent[d] >= 0 && offset[d] + extent[d] <= global[d];
  }
  require(inside, array.path + ": a piece of shape " + to_string(extent) + " at " + to_string(offset) +
                      " leaves the array " + to_string(global));
  require(piece.data.count() == piece.box.count() && piece.data.contiguous(),
          array.path + ": the memory of a piece is not contiguous or has another size than its box");
}

std::vector<Box> merged(std::vector<Box> boxes) {
  for (std::size_t before = boxes.size() + 1; boxes.size() < before;) {
    before = boxes.size();
    for (int d = boxes.empty() ? -1 : boxes.front().extent.rank - 1; d >= 0; --d) merge_along(boxes, d);
  }
  std::sort(boxes.begin(), boxes.end(), starts_before);
  return boxes;
}

std::vector<Round> plan_rounds(const Stored& array, std::int64_t limit) {
  require(array.global.rank >= 1 && limit >= 1, array.path + ": a stored array has at least one dimension");
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < array.pieces.size(); ++i) {
    require_piece(array, array.pieces[i]);
    if (array.pieces[i].box.count() > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return starts_before(array.pieces[a].box, array.pieces[b].box); });
  std::vector<Round> rounds;
  for (const std::size_t i : order) {
    const std::int64_t count = array.pieces[i].box.count();
    for (std::int64_t first = 0, last = 0; first < count; first = last) {
      if (rounds.empty() || rounds.back().count == limit) rounds.emplace_back();
      Round& round = rounds.back();
      last = std::min(count, first + limit - round.count);
      round.parts.push_back({i, {first, last}});
      round.count += last - first;
      for (const Box& box : boxes_of(array.pieces[i].box, first, last)) round.boxes.push_back(box);
    }
  }
  for (Round& round : rounds) round.boxes = merged(std::move(round.boxes));
  return rounds;
}

Runs runs_of(const Stored& array, const Round& round) {
  Runs runs;
  for (const Part& part : round.parts) {
    runs.first.push_back(runs.all.size());
    std::int64_t from = 0;
    for (const Box& box : boxes_of(array.pieces[part.piece].box, part.range.first, part.range.last)) {
      append_runs(runs.all, array.global, box, from);
    }
  }
  runs.first.push_back(runs.all.size());
  set_places(runs, array.path);
  return runs;
}

}  // namespace trireme
