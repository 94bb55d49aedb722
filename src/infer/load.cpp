// Loading weights into a LanguageModel.
#include <algorithm>
#include <map>

#include "trireme/base/check.h"
#include "trireme/infer/language_model.h"
#include "trireme/io/checkpoint.h"
#include "trireme/io/hf_config.h"
#include "trireme/io/param_places.h"

namespace trireme {

namespace {

constexpr std::int64_t k_elements = std::int64_t{1} << 22;  // on the host at a time

// Rows of a parameter's box from those of the whole parameter, in the type of the model.
std::vector<std::byte> rows_of_box(const std::vector<double>& whole, std::int64_t columns, const Box& box,
                                   DType dtype) {
  const std::int64_t first = box.extent.rank == 2 ? box.offset[1] : 0, n = box.extent.columns();
  const auto rows = std::ssize(whole) / columns;
  std::vector<std::byte> bytes(static_cast<std::size_t>(rows * n) * size_of(dtype));
  const auto put = [&]<class T>(T*) {
    T* out = reinterpret_cast<T*>(bytes.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < n; ++c) {
        const double x = whole[static_cast<std::size_t>(r * columns + first + c)];
        if constexpr (std::is_same_v<T, double>) out[r * n + c] = x;
        if constexpr (!std::is_same_v<T, double>) out[r * n + c] = static_cast<T>(static_cast<float>(x));
      }
    }
  };
  if (dtype == DType::f64) put(static_cast<double*>(nullptr));
  if (dtype == DType::f32) put(static_cast<float*>(nullptr));
  if (dtype == DType::bf16) put(static_cast<Bf16*>(nullptr));
  if (dtype == DType::f16) put(static_cast<F16*>(nullptr));
  return bytes;
}

}  // namespace

void LanguageModel::load(const Weights& weights, Communicator& control) {
  if (weights.kind == WeightsKind::hugging_face) load_hugging_face(weights.path);
  if (weights.kind == WeightsKind::checkpoint) load_checkpoint_weights(weights.path, control);
  backend_.synchronize();
}

void LanguageModel::load_checkpoint_weights(const std::string& path, Communicator& control) {
  std::vector<Stored> arrays;
  std::map<std::string, std::size_t> index;
  for (ParamId id = 0; id < model_.table().size(); ++id) {
    const ParamSpec& spec = model_.table()[id];
    const Param& param = params_->at(id);
    const auto [found, is_new] = index.emplace(spec.stack, arrays.size());
    if (is_new)
      arrays.push_back(
          {"/param/" + spec.stack, stacked(spec, deck_.layers), compute_, {}, "", {}, spec.valid_rows, ""});
    arrays[found->second].pieces.push_back(
        {stacked(spec, param.box), param.value, spec.cut != Cut::none || grid_.here().at(Axis::tp) == 0, {}});
  }
  load_checkpoint(path, arrays, control, backend_);
}

void LanguageModel::load_hugging_face(const std::string& path) {
  const HfFiles files(path);
  const HfFamily family = read_hf_config(path).family;
  for (ParamId id = 0; id < model_.table().size(); ++id) {
    const ParamSpec& spec = model_.table()[id];
    const Param& param = params_->at(id);
    const std::optional<HfPlace> place = hf_place(family, spec.name, {deck_.hidden, deck_.head_dim});
    require(place.has_value(), "a parameter without a place in a Hugging Face model: " + spec.name);
    const std::int64_t columns = spec.shape.columns(), step = std::max<std::int64_t>(1, k_elements / columns);
    for (std::int64_t r = 0; r < param.box.extent[0]; r += step) {
      const std::int64_t n = std::min(step, param.box.extent[0] - r), first = param.box.offset[0] + r;
      const std::vector<double> rows = hf_values(files, *place, spec.shape, {first, first + n});
      backend_.to_device(param.value.slice_rows(r, n), rows_of_box(rows, columns, param.box, compute_).data());
    }
  }
}

}  // namespace trireme
