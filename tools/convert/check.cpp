#include "check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "trireme/base/philox.h"
#include "trireme/comm/process_grid.h"
#include "trireme/infer/language_model.h"

namespace trireme {

namespace {

constexpr std::int64_t k_tokens = 48;

struct Probe {
  std::vector<double> logits;
  double loss = 0;
  std::int64_t vocab = 0;
};

std::vector<std::int32_t> tokens_of(std::int64_t n, std::int64_t vocab) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i)
    ids.push_back(
        static_cast<std::int32_t>(random_word({1, stream_of("probe"), 0}, static_cast<std::uint64_t>(i)) % vocab));
  return ids;
}

// fp32 arithmetic whatever the weights are: differences then are differences of weights.
Weights weights_at(const std::string& path) {
  const std::vector<std::string> fp32 = {"precision.compute=fp32", "device.kind=cpu"};
  return weights_from(find_weights(path), fp32, 1);
}

Probe probe(const Weights& weights, std::int64_t n) {
  const std::unique_ptr<Backend> backend = make_cpu_backend(2);
  const std::unique_ptr<Communicator> control = make_self_communicator(*backend);
  const ProcessGrid grid(make_self_communicator(*backend), {1, 1, 1, 1});
  LanguageModel model(weights.deck.model, DType::f32, grid, *backend, DeviceKind::cpu, {1, n, n, n});
  model.load(weights, *control);
  const std::vector<std::int32_t> ids = tokens_of(n, model.vocab());
  const std::vector<std::int64_t> slot{0};
  Probe result{model.pass(slot, ids, LogitRows::all, Cache::bypassed), 0, model.vocab()};
  for (std::int64_t t = 0; t + 1 < n; ++t) {
    const double* row = result.logits.data() + t * result.vocab;
    const double largest = *std::max_element(row, row + result.vocab);
    double sum = 0;
    for (std::int64_t v = 0; v < result.vocab; ++v) sum += std::exp(row[v] - largest);
    result.loss += (std::log(sum) + largest - row[ids[static_cast<std::size_t>(t + 1)]]) / static_cast<double>(n - 1);
  }
  return result;
}

}  // namespace

bool check_conversion(const std::string& checkpoint, const std::string& folder) {
  const Weights mine = weights_at(checkpoint), other = weights_at(folder);
  const std::int64_t n = std::min({k_tokens, mine.deck.model.sequence, other.deck.model.sequence});
  const Probe ours = probe(mine, n), theirs = probe(other, n);
  if (ours.vocab != theirs.vocab) {
    std::printf("check: FAIL, vocabularies of %lld and %lld tokens\n", static_cast<long long>(ours.vocab),
                static_cast<long long>(theirs.vocab));
    return false;
  }
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < theirs.logits.size(); ++i) {
    const double difference = std::abs(ours.logits[i] - theirs.logits[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : HUGE_VAL;
    largest = std::max(largest, std::abs(theirs.logits[i]));
  }
  const bool good = worst <= 2e-5 * largest;
  std::printf("check: %s, largest logit difference %.2e of %.2e; loss of a probe of random tokens %.6f and %.6f\n",
              good ? "pass" : "FAIL", worst, largest, ours.loss, theirs.loss);
  return good;
}

}  // namespace trireme
