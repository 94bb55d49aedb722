#include "trireme/train/state.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/io/hugging_face.h"
#include "trireme/io/param_places.h"

namespace trireme {

namespace {

// Blocks of the file that a tp rank holds whole where its part of the array is not contiguous. HDF5 takes blocks below
// 4 GiB.
Shape chunk_of(const ParamSpec& spec, const GridPoint& here, DType dtype) {
  const std::int64_t parts = here.n(Axis::tp), width = spec.shape.rank == 2 ? spec.shape[1] : 0;
  if (spec.cut != Cut::columns || parts == 1 || width % (parts * spec.cut_unit) != 0) return {};
  constexpr std::int64_t k_most = std::int64_t{1} << 31;
  const std::int64_t row = width / parts * static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t rows = std::min(spec.shape[0], std::max<std::int64_t>(1, k_most / row));
  return spec.stack == spec.name ? Shape{rows, width / parts} : Shape{1, rows, width / parts};
}

// The family whose names the arrays carry, when the model is of one.
std::optional<HfFamily> family_of(const ModelDeck& model) {
  const bool gelu = model.activation == "gelu_tanh" || model.activation == "gelu_erf";
  if (model.norm == "layer" && model.position == "learned" && gelu) return HfFamily::gpt2;
  if (model.norm == "layer" && model.position == "rope" && gelu) return HfFamily::neox;
  if (model.norm == "rms" && model.position == "rope" && model.activation == "swiglu") return HfFamily::llama;
  return std::nullopt;
}

// One list of arrays of a kind ("/param/", "/adam_m/"): an entry per stack, in the order of the table.
class Kind {
 public:
  Kind(const Engine& engine, const ParamStore& params, std::string prefix, DType dtype) : table_(params.table()) {
    const ModelDeck& model = engine.model().deck();
    const std::optional<HfFamily> family = family_of(model);
    for (const ParamSpec& spec : table_.all()) {
      const auto place = family ? hf_place(*family, spec.name, {model.hidden, model.head_dim}) : std::nullopt;
      const std::string name = place ? place->name : "";
      const auto [found, is_new] = index_.emplace(spec.stack, arrays_.size());
      if (!is_new) {
        if (place) arrays_[found->second].hf_names += "\n" + name;
        continue;
      }
      arrays_.push_back({prefix + spec.stack,
                         stacked(spec, model.layers),
                         dtype,
                         {},
                         name,
                         chunk_of(spec, params.here(), dtype),
                         spec.valid_rows,
                         ""});
    }
  }

  // The elements [own) of a bucket, whose memory starts at `data` (of their weights at `weight`, if any), as boxes of
  // the parameters they belong to.
  void add(const Bucket& bucket, Range own, Tensor data, Tensor weight, bool writes) {
    for (const BucketPart& part : bucket.parts) {
      const std::int64_t first = std::max(own.first, part.offset),
                         last = std::min(own.last, part.offset + part.box.count());
      if (first >= last) continue;
      const ParamSpec& spec = table_[part.id];
      Stored& stored = arrays_[index_.at(spec.stack)];
      std::int64_t position = first - own.first;
      for (const Box& box : boxes_of(part.box, first - part.offset, last - part.offset)) {
        const auto slice = [&](Tensor all) { return all ? all.slice_rows(position, box.count()) : Tensor{}; };
        stored.pieces.push_back({stacked(spec, box), slice(data), writes, slice(weight)});
        position += box.count();
      }
    }
  }

  std::vector<Stored> take() { return std::move(arrays_); }

 private:
  const ParamTable& table_;
  std::vector<Stored> arrays_;
  std::map<std::string, std::size_t> index_;
};

// Builds the lists; every range that several replicas hold is written by all of them, each its share.
class Lister {
 public:
  explicit Lister(Engine& engine) : engine_(engine), params_(engine.params()), states_(engine.optimizer().states()) {
    const GridPoint& here = params_.here();
    n_replicas_ = here.n(Axis::dp) * here.n(Axis::cp);
    replica_ = here.at(Axis::dp) * here.n(Axis::cp) + here.at(Axis::cp);
  }

  DType compute() const { return params_.buckets().empty() ? DType::f32 : params_.buckets()[0].value.dtype; }
  bool empty() const { return states_.empty(); }

  void weights(const std::string& source, bool joined) {
    Kind kind(engine_, params_, "/param/", compute());
    for (const Bucket& bucket : params_.buckets()) {
      const Tensor weight = joined ? bucket.value : Tensor{};
      add_shared(kind, bucket, {0, bucket.size}, bucket.value, weight);
    }
    append(kind.take(), "/param/", source);
  }

  // of: the tensor of a state. weighted: with the memory of the weights.
  void states(const std::string& prefix, Tensor AdamW::State::*of, bool weighted, const std::string& source) {
    Kind kind(engine_, params_, prefix, (states_[0].*of).dtype);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const Bucket& bucket = params_.buckets()[i];
      const Range own = states_[i].own;
      const Tensor weight = weighted ? bucket.value.slice_rows(own.first, own.count()) : Tensor{};
      if (engine_.zero() == Zero::on) kind.add(bucket, own, states_[i].*of, weight, bucket.counts);
      if (engine_.zero() == Zero::off) add_shared(kind, bucket, own, states_[i].*of, weight);
    }
    append(kind.take(), prefix, source);
  }

  std::vector<Stored> take() { return std::move(all_); }

 private:
  void add_shared(Kind& kind, const Bucket& bucket, Range range, Tensor data, Tensor weight) const {
    const Range mine = cut(range.count(), n_replicas_, replica_);
    for (const Range& part : {Range{0, mine.first}, mine, Range{mine.last, range.count()}}) {
      const auto slice = [&](Tensor all) { return all ? all.slice_rows(part.first, part.count()) : Tensor{}; };
      kind.add(bucket, {range.first + part.first, range.first + part.last}, slice(data), slice(weight),
               bucket.counts && part == mine);
    }
  }

  void append(std::vector<Stored> arrays, const std::string& prefix, const std::string& source) {
    for (Stored& array : arrays) {
      if (!source.empty()) array.source = source + array.path.substr(prefix.size());
      all_.push_back(std::move(array));
    }
  }

  Engine& engine_;
  ParamStore& params_;
  const std::vector<AdamW::State>& states_;
  std::int64_t n_replicas_ = 1, replica_ = 0;
  std::vector<Stored> all_;
};

}  // namespace

std::vector<Stored> everything(Engine& engine, Contents contents) {
  Lister list(engine);
  list.weights("", false);
  if (contents == Contents::weights || list.empty()) return list.take();
  if (engine.optimizer().has_master()) list.states("/master/", &AdamW::State::master, false, "");
  list.states("/adam_m/", &AdamW::State::m, false, "");
  list.states("/adam_v/", &AdamW::State::v, false, "");
  return list.take();
}

std::vector<Stored> to_load(Engine& engine, Contents contents, std::optional<DType> masters) {
  Lister list(engine);
  const bool separate = engine.optimizer().has_master(), remainders = masters == DType::u16;
  // Weights that are their own masters take those of the file: whole ones at once, remainders on top of the weights.
  list.weights(!separate && masters && !remainders ? "/master/" : "", false);
  if (!separate && remainders) list.weights("/master/", true);
  if (list.empty()) return list.take();
  const bool bf16 = list.compute() == DType::bf16;
  if (separate) list.states("/master/", &AdamW::State::master, bf16, masters ? "" : "/param/");
  if (contents == Contents::weights) return list.take();
  list.states("/adam_m/", &AdamW::State::m, false, "");
  list.states("/adam_v/", &AdamW::State::v, false, "");
  return list.take();
}

void settle_loaded(Engine& engine, std::optional<DType> masters) {
  const std::vector<AdamW::State>& states = engine.optimizer().states();
  const bool remainders_here = !states.empty() && states[0].master.dtype == DType::u16;
  if (remainders_here && masters != DType::u16) engine.optimizer().share_weights();
}

SaveOptions options_from(const CheckpointDeck& deck) {
  SaveOptions options;
  options.files = deck.files;
  options.transfer = deck.transfer == "direct" ? Transfer::direct : Transfer::collective;
  options.align_bytes = static_cast<std::int64_t>(deck.align_mb * 1048576);
  if (deck.stripe_count != 0) options.hints["striping_factor"] = std::to_string(deck.stripe_count);
  if (deck.stripe_mb > 0)
    options.hints["striping_unit"] = std::to_string(static_cast<std::int64_t>(deck.stripe_mb * 1048576));
  if (deck.aggregators > 0) options.hints["cb_nodes"] = std::to_string(deck.aggregators);
  if (deck.aggregators_per_node > 0) options.hints["cb_config_list"] = "*:" + std::to_string(deck.aggregators_per_node);
  for (const std::string& hint : deck.hints)
    options.hints[hint.substr(0, hint.find('='))] = hint.substr(hint.find('=') + 1);
  return options;
}

namespace {

std::string list_text(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += format("%.17g ", value);
  return text;
}

std::vector<double> list_from(const std::string& text) {
  std::vector<double> values;
  std::istringstream in(text);
  for (double value = 0; in >> value;) values.push_back(value);
  return values;
}

}  // namespace

Attributes to_attributes(const Progress& p) {
  return {{"recent_losses", list_text(p.recent.losses)},
          {"recent_norms", list_text(p.recent.norms)},
          {"skips_in_row", std::to_string(p.skips_in_row)},
          {"jumps", p.jumps},
          {"step", std::to_string(p.step)},
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
  const auto later = [&](const std::string& name) {  // older checkpoints have none
    const auto found = attributes.find(name);
    return found == attributes.end() ? std::string() : found->second;
  };
  p.recent = {list_from(later("recent_losses")), list_from(later("recent_norms"))};
  p.skips_in_row = std::atoll(later("skips_in_row").c_str());
  p.jumps = later("jumps");
  return p;
}

}  // namespace trireme
