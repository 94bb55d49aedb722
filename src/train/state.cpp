#include "trireme/train/state.h"

#include <cstdlib>
#include <map>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

// Box of one parameter in its dataset: stacked blocks have the layer as dimension 0.
Box stacked(const ParamSpec& spec, const Box& box) {
  if (spec.stack == spec.name) return box;
  Box with_layer;
  with_layer.offset.rank = with_layer.extent.rank = box.extent.rank + 1;
  with_layer.offset[0] = spec.layer;
  with_layer.extent[0] = 1;
  for (int i = 0; i < box.extent.rank; ++i) {
    with_layer.offset[i + 1] = box.offset[i];
    with_layer.extent[i + 1] = box.extent[i];
  }
  return with_layer;
}

Shape stacked(const ParamSpec& spec, std::int64_t n_layers) {
  if (spec.stack == spec.name) return spec.shape;
  return spec.shape.rank == 1 ? Shape{n_layers, spec.shape[0]} : Shape{n_layers, spec.shape[0], spec.shape[1]};
}

// The list under construction: one entry per stack, in the order of the table.
struct List {
  std::vector<Stored> arrays;
  std::map<std::string, std::size_t> index;
};

List empty_list(const ParamTable& table, const std::string& prefix, DType dtype, std::int64_t n_layers) {
  List list;
  for (const ParamSpec& spec : table.all()) {
    if (!list.index.emplace(spec.stack, list.arrays.size()).second) continue;
    Stored stored;
    stored.path = prefix + spec.stack;
    stored.global = stacked(spec, n_layers);
    stored.dtype = dtype;
    stored.writes = false;
    list.arrays.push_back(stored);
  }
  return list;
}

// Adds the elements [own) of a bucket, whose memory starts at `data`, as boxes of the parameters they belong to.
void add_range(List& list, const ParamTable& table, const Bucket& bucket, Range own, Tensor data, bool writes) {
  for (const BucketPart& part : bucket.parts) {
    const std::int64_t first = std::max(own.first, part.offset),
                       last = std::min(own.last, part.offset + part.box.count());
    if (first >= last) continue;
    const ParamSpec& spec = table[part.id];
    Stored& stored = list.arrays[list.index.at(spec.stack)];
    stored.writes = writes;
    std::int64_t position = first - own.first;
    for (const Box& box : boxes_of(part.box, first - part.offset, last - part.offset)) {
      stored.pieces.push_back({stacked(spec, box), data.slice_rows(position, box.count())});
      position += box.count();
    }
  }
}

}  // namespace

std::vector<Stored> everything(Engine& engine, Contents contents) {
  ParamStore& params = engine.params();
  const ParamTable& table = params.table();
  const std::int64_t n_layers = engine.partition().n_layers;
  const bool first_replica = params.here().at(Axis::dp) == 0 && params.here().at(Axis::cp) == 0;
  const std::vector<AdamW::State>& states = engine.optimizer().states();

  std::vector<Stored> all;
  const auto append = [&](const std::string& prefix, DType dtype, auto data_of, auto own_of, bool writes) {
    List list = empty_list(table, prefix, dtype, n_layers);
    for (std::size_t i = 0; i < params.buckets().size(); ++i) {
      const Bucket& bucket = params.buckets()[i];
      add_range(list, table, bucket, own_of(i), data_of(i), writes && bucket.counts);
    }
    for (Stored& stored : list.arrays) all.push_back(std::move(stored));
  };
  const auto whole = [&](std::size_t i) { return Range{0, params.buckets()[i].size}; };
  const auto own = [&](std::size_t i) { return states[i].own; };
  append(
      "/param/", params.buckets().empty() ? DType::f32 : params.buckets()[0].value.dtype,
      [&](std::size_t i) { return params.buckets()[i].value; }, whole, first_replica);
  if (contents == Contents::weights || states.empty()) return all;
  const bool writes = engine.zero() == Zero::on || first_replica;
  if (engine.optimizer().has_master()) {
    append(
        "/master/", states[0].master.dtype, [&](std::size_t i) { return states[i].master; }, own, writes);
  }
  append(
      "/adam_m/", states[0].m.dtype, [&](std::size_t i) { return states[i].m; }, own, writes);
  append(
      "/adam_v/", states[0].v.dtype, [&](std::size_t i) { return states[i].v; }, own, writes);
  return all;
}

Attributes to_attributes(const Progress& p) {
  return {{"step", std::to_string(p.step)},
          {"updates", std::to_string(p.updates)},
          {"samples", std::to_string(p.samples)},
          {"tokens", std::to_string(p.tokens)},
          {"loss_scale", format("%.17g", p.scaler.scale)},
          {"loss_scale_good_steps", std::to_string(p.scaler.good_steps)},
          {"loss_scale_hysteresis", std::to_string(p.scaler.hysteresis)}};
}

Progress progress_from(const Attributes& attributes, const std::string& path) {
  const auto text = [&](const std::string& name) -> const char* {
    const auto found = attributes.find(name);
    if (found == attributes.end()) throw Error(Exit::data, path + ": the checkpoint has no attribute " + name);
    return found->second.c_str();
  };
  const auto integer = [&](const std::string& name) { return static_cast<std::int64_t>(std::atoll(text(name))); };
  Progress p;
  p.step = integer("step");
  p.updates = integer("updates");
  p.samples = integer("samples");
  p.tokens = integer("tokens");
  p.scaler.scale = std::atof(text("loss_scale"));
  p.scaler.good_steps = integer("loss_scale_good_steps");
  p.scaler.hysteresis = integer("loss_scale_hysteresis");
  return p;
}

}  // namespace trireme
