#include "recipe.h"

#include "trireme/base/check.h"
#include "trireme/comm/process_grid.h"
#include "trireme/train/job.h"

namespace trireme::reshard {

namespace {

std::optional<DType> masters_of(const CheckpointReader& in) {
  for (const ArrayInfo& array : in.arrays()) {
    if (array.path.starts_with("/master/")) return array.dtype;
  }
  return std::nullopt;
}

std::string behind(const std::string& path, const std::string& prefix) {
  return prefix + path.substr(path.find('/', 1) + 1);
}

Recipe recipe_for(std::size_t i, const Stored& target, std::optional<DType> masters,
                  std::optional<DType> masters_here) {
  const bool is_weight = target.path.starts_with("/param/"), is_master = target.path.starts_with("/master/");
  const std::string weights = behind(target.path, "/param/"), of_masters = behind(target.path, "/master/");
  const std::string best = masters ? of_masters : weights;
  const bool remainders = masters == DType::u16, remainders_here = masters_here == DType::u16;
  if (is_master && remainders && !remainders_here) return {i, Making::join, weights, of_masters};
  if (is_master && !remainders && remainders_here) return {i, Making::remainder, best, ""};
  if (is_master) return {i, Making::convert, best, ""};
  if (!is_weight) return {i, Making::convert, target.path, ""};
  if (!masters_here && remainders && target.dtype != DType::bf16) return {i, Making::join, weights, of_masters};
  if (remainders_here && !remainders) return {i, Making::weight, best, ""};
  const bool finer = masters && !remainders && !masters_here && target.dtype != DType::bf16;
  return {i, Making::convert, finer ? of_masters : weights, ""};
}

// Rows of padding may differ.
void require_fit(const CheckpointReader& in, const std::string& source, const Stored& target) {
  const ArrayInfo* found = in.find(source);
  if (found == nullptr)
    throw Error(Exit::data, "the checkpoint has no array " + source + ", which " + target.path +
                                " is made of (a file without optimizer state: --weights-only)");
  std::vector<std::int64_t> expected(target.global.dim.begin(), target.global.dim.begin() + target.global.rank);
  if (target.valid_rows > 0 && found->shape.size() == expected.size() && found->shape[0] >= target.valid_rows)
    expected[0] = found->shape[0];
  require(found->shape == expected, source + " has another shape than its deck says");
}

}  // namespace

Plan make_plan(const CheckpointReader& in, const Deck& deck, Contents contents) {
  const Model model(deck.model);
  const auto backend = make_plan_backend(DeviceKind::cpu);
  const int n_ranks = static_cast<int>(deck.parallel.pipeline * deck.parallel.context * deck.parallel.tensor *
                                       std::max<std::int64_t>(1, deck.parallel.data));
  const ProcessGrid grid = ProcessGrid::planned(point_of(grid_size(deck.parallel, n_ranks), 0));
  Engine engine(deck, model, grid, *backend, {}, Wires::planned);
  Plan plan{everything(engine, contents), {}};
  std::optional<DType> masters_here;
  if (contents == Contents::all && engine.optimizer().has_master())
    masters_here = engine.optimizer().states().at(0).master.dtype;
  for (std::size_t i = 0; i < plan.targets.size(); ++i) {
    Stored& target = plan.targets[i];
    target.pieces.clear();
    plan.recipes.push_back(recipe_for(i, target, masters_of(in), masters_here));
    for (const std::string& source : {plan.recipes.back().source, plan.recipes.back().second}) {
      if (!source.empty()) require_fit(in, source, target);
    }
  }
  return plan;
}

}  // namespace trireme::reshard
