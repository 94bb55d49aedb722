#include "trireme/model/param_store.h"

#include <algorithm>
#include <tuple>

#include "trireme/base/check.h"

namespace trireme {

namespace {

constexpr std::int64_t k_start = 64;  // elements: parameters (groups of joined ones) start at multiples of this

bool is_partial(const ParamSpec& spec, const ParamStoreOptions& options) {
  return spec.partial == Partial::heads || (spec.partial == Partial::tokens && options.sequence_parallel);
}

Bucket kind_of(const ParamSpec& spec, int chunk, const GridPoint& here, const Partition& partition,
               const ParamStoreOptions& options) {
  Bucket bucket;
  bucket.chunk = chunk;
  bucket.decay = spec.decay;
  bucket.partial = is_partial(spec, options);
  bucket.at_both_ends = spec.layer == k_both_ends && partition.n_stages > 1;
  bucket.counts = counts(spec, here, partition, chunk);
  bucket.accumulates = spec.layer < 0 || spec.layer >= k_last_layer;
  return bucket;
}

auto key_of(const Bucket& b) {
  return std::tie(b.chunk, b.decay, b.partial, b.at_both_ends, b.counts, b.accumulates);
}

// The layer whose backward is the last to touch it. A tied embedding is done when the first layer is.
int last_use(const ParamSpec& spec) {
  return spec.layer == k_both_ends ? k_first_layer : spec.layer;
}

// The order in which backward finishes: head, blocks from last to first, embedding.
std::vector<ParamId> completion_order(const ParamTable& table) {
  std::vector<ParamId> order;
  for (ParamId id = 0; id < table.size(); ++id) order.push_back(id);
  std::stable_sort(order.begin(), order.end(),
                   [&](ParamId a, ParamId b) { return last_use(table[a]) > last_use(table[b]); });
  return order;
}

void append(Bucket& bucket, ParamId id, const Box& box, bool joined) {
  std::int64_t offset = bucket.size;
  if (!joined) offset = round_up(offset, k_start);
  if (offset > bucket.size) bucket.gaps.push_back({bucket.size, offset});
  bucket.parts.push_back({id, box, offset});
  bucket.size = offset + box.count();
}

}  // namespace

ParamStore::ParamStore(const ParamTable& table, const GridPoint& here, const Partition& partition,
                       const ParamStoreOptions& options, Arena& persistent)
    : table_(table), here_(here), partition_(partition), params_(static_cast<std::size_t>(table.size())) {
  const auto limit = options.bucket_bytes / static_cast<std::int64_t>(size_of(options.gradients));
  const std::vector<ParamId> order = completion_order(table);
  for (int chunk = partition.n_chunks - 1; chunk >= 0; --chunk) {
    std::vector<std::size_t> open;  // buckets of this chunk that still take parameters
    for (const ParamId id : order) {
      const ParamSpec& spec = table[id];
      if (!trireme::holds(spec, here.at(Axis::pp), chunk, partition)) continue;
      const Bucket wanted = kind_of(spec, chunk, here, partition, options);
      auto found =
          std::find_if(open.begin(), open.end(), [&](std::size_t i) { return key_of(buckets_[i]) == key_of(wanted); });
      const bool full =
          found != open.end() && buckets_[*found].size >= limit && last_use(spec) < buckets_[*found].lowest_layer;
      if (full) {
        open.erase(found);
        found = open.end();
      }
      if (found == open.end()) {
        buckets_.push_back(wanted);
        found = open.insert(open.end(), buckets_.size() - 1);
      }
      buckets_[*found].lowest_layer = last_use(spec);
      append(buckets_[*found], id, local_box(spec, here, partition), spec.joined);
    }
  }
  const std::int64_t multiple = k_start * here.n(Axis::dp) * here.n(Axis::cp);
  for (Bucket& bucket : buckets_) {
    const std::int64_t used = bucket.size;
    bucket.size = round_up(used, multiple);
    if (bucket.size > used) bucket.gaps.push_back({used, bucket.size});
    bucket.value = persistent.take(options.compute, {bucket.size});
  }
  const bool trains = options.holds == Holds::values_and_gradients;
  bucket_of_.resize(params_.size());
  arriving_.resize(buckets_.size());
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    if (trains) bucket.grad = persistent.take(options.gradients, {bucket.size});
    for (const BucketPart& part : bucket.parts) {
      Param& param = params_[static_cast<std::size_t>(part.id)];
      bucket_of_[static_cast<std::size_t>(part.id)] = i;
      param.box = part.box;
      param.value = bucket.value.slice_rows(part.offset, part.box.count()).as(part.box.extent);
      if (trains) param.grad = bucket.grad.slice_rows(part.offset, part.box.count()).as(part.box.extent);
    }
  }
}

const Param& ParamStore::at(ParamId id) const {
  const Param& param = params_[static_cast<std::size_t>(id)];
  require(param.value.data != nullptr, "parameter is on another stage: " + table_[id].name);
  arriving_[bucket_of_[static_cast<std::size_t>(id)]].wait();
  return param;
}

void ParamStore::settle() const {
  for (Ticket& ticket : arriving_) ticket.wait();
}

Tensor ParamStore::join(ParamId first, int n, bool gradient) const {
  Tensor all = gradient ? at(first).grad : at(first).value;
  for (ParamId id = first + 1; id < first + n; ++id) {
    const Tensor next = gradient ? at(id).grad : at(id).value;
    require(next.data == all.data + all.bytes(), "joined parameters are not adjacent: " + table_[id].name);
    all.shape[0] += next.shape[0];
  }
  return all;
}

Tensor ParamStore::joined_value(ParamId first, int n) const {
  return join(first, n, false);
}
Tensor ParamStore::joined_grad(ParamId first, int n) const {
  return join(first, n, true);
}

std::int64_t ParamStore::n_local() const {
  std::int64_t n = 0;
  for (const Param& param : params_) n += param.value ? param.value.count() : 0;
  return n;
}

void ParamStore::initialise(Backend& backend, std::uint64_t seed) {
  for (Bucket& bucket : buckets_) {
    backend.fill(bucket.value, 0);
    backend.fill(bucket.grad, 0);
    for (const BucketPart& part : bucket.parts) {
      const ParamSpec& spec = table_[part.id];
      Tensor value = at(part.id).value;
      if (spec.init == Init::ones) backend.fill(value, 1);
      if (spec.init != Init::normal || part.box.count() == 0) continue;
      if (value.shape.rank == 1) value = value.as({1, value.count()});
      NormalFill fill{{seed, stream_of(spec.name), 0}, 0, 0, spec.shape[spec.shape.rank - 1], spec.init_std};
      fill.first_row = spec.shape.rank == 2 ? part.box.offset[0] : 0;
      fill.first_column = part.box.offset[spec.shape.rank - 1];
      const std::int64_t valid = spec.valid_rows > 0 ? spec.valid_rows - fill.first_row : value.rows();
      if (valid > 0) backend.fill_normal(value.slice_rows(0, std::min(valid, value.rows())), fill);
    }
  }
}

}  // namespace trireme
