#include "trireme/train/reporter.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "trireme/base/check.h"
#include "trireme/base/log.h"

namespace trireme {

namespace {

// JSON has no NaN and no infinity.
std::string number(double x) {
  return std::isfinite(x) ? format("%.17g", x) : "null";
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::int64_t step_of(const std::string& line) {
  const std::size_t at = line.find("\"step\":");
  return at == std::string::npos ? -1 : std::atoll(line.c_str() + at + 7);
}

// Keeps the lines of steps up to `last`, by way of a temporary file.
void keep_until(const std::string& path, std::int64_t last) {
  std::ifstream in(path);
  if (!in) return;
  std::ofstream out(path + ".part");
  for (std::string line; std::getline(in, line);) {
    if (step_of(line) <= last) out << line << '\n';
  }
  out.close();
  if (!out || std::rename((path + ".part").c_str(), path.c_str()) != 0) {
    throw Error(Exit::data, "cannot rewrite " + path + ": check the free space and permissions of the run folder");
  }
}

// Seconds per step of each phase on rank 0.
std::string phases_text(const PhaseSeconds& sums, std::int64_t n_steps) {
  std::string text;
  for (int i = 0; i < k_n_phases; ++i) {
    text += std::string(",\"") + name_of(static_cast<Phase>(i)) +
            "_s\":" + number(sums[static_cast<std::size_t>(i)] / static_cast<double>(n_steps));
  }
  return text;
}

double seconds_between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

}  // namespace

double known_peak(const std::string& device) {
  for (const char* name : {"H100", "H200", "GH200"}) {
    if (device.find(name) != std::string::npos) return 989.4e12;
  }
  if (device.find("A100") != std::string::npos) return 312e12;
  if (device.find("B200") != std::string::npos) return 2250e12;
  return 0;
}

Reporter::Reporter(const Deck& deck, Voice voice, const ModelFlops& flops, double peak_flops, int n_ranks,
                   double memory)
    : deck_(deck),
      voice_(voice),
      flops_(flops),
      peak_flops_(peak_flops),
      memory_(memory),
      n_ranks_(n_ranks),
      path_(deck.run.output + "/metrics.jsonl") {}

void Reporter::begin(std::int64_t first_step, double time) {
  if (voice_ == Voice::speaking) keep_until(path_, first_step);
  if (voice_ == Voice::speaking && deck_.log.tensorboard) scalars_.emplace(deck_.run.output, first_step + 1);
  last_time_ = time;
}

void Reporter::restart_clock(double time) {
  last_time_ = time;
}

void Reporter::write(const std::string& json) {
  std::ofstream out(path_, std::ios::app);
  out << json << '\n';
  out.flush();
  if (!out)
    throw Error(Exit::data, "cannot write " + path_ + ": check the free space and permissions of the run folder");
}

bool Reporter::due(std::int64_t step) const {
  return step % deck_.log.every == 0 || step == 1 || step == deck_.run.steps;
}

void Reporter::step(const StepReport& r) {
  if (voice_ == Voice::silent) return;
  ++window_steps_;
  window_tokens_ += r.tokens_in_step;
  window_ += r.time - last_time_;
  for (std::size_t i = 0; i < window_phases_.size(); ++i) window_phases_[i] += r.phases[i];
  last_time_ = r.time;
  const auto now = Clock::now();
  const double window = std::max(1e-9, window_);
  const double per_step = window / static_cast<double>(window_steps_),
               rate = static_cast<double>(window_tokens_) / window;
  const double eta = per_step * static_cast<double>(deck_.run.steps - r.step);
  if (!due(r.step) && seconds_between(last_progress_, now) > 0.2) {
    const double done = static_cast<double>(r.step) / static_cast<double>(deck_.run.steps);
    const auto filled = static_cast<std::size_t>(done * 30);
    const std::string bar = std::string(filled, '#') + std::string(30 - filled, '.');
    log().progress(format("[%s] step %lld/%lld  loss %.4f  ETA %s", bar.c_str(), static_cast<long long>(r.step),
                          static_cast<long long>(deck_.run.steps), r.loss, time_text(eta).c_str()));
    last_progress_ = now;
  }
  if (!due(r.step)) return;
  const double causal = rate * flops_.causal / n_ranks_, full = rate * flops_.full / n_ranks_;
  const double mfu = peak_flops_ > 0 ? causal / peak_flops_ : std::nan("");
  EventFile::Scalars rates = {{"perf/tokens_per_s", rate},
                              {"perf/step_s", per_step},
                              {"perf/tflops_per_rank", causal / 1e12},
                              {"perf/mfu", peak_flops_ > 0 ? mfu : 0}};
  std::string line =
      format("step %*lld/%lld  loss %.5f  grad %.4f  lr %.3e  %s tok/s  %.3f TFLOP/s (full %.3f)  %.3f s",
             static_cast<int>(std::to_string(deck_.run.steps).size()), static_cast<long long>(r.step),
             static_cast<long long>(deck_.run.steps), r.loss, r.grad_norm, r.lr, count_text(rate).c_str(),
             causal / 1e12, full / 1e12, per_step);
  if (deck_.precision.compute == "fp16") line += format("  scale %g", r.loss_scale);
  if (peak_flops_ > 0) line += format("  mfu %.1f%%", 100 * mfu);
  std::string energy;
  if (r.joules) {
    const double per_token = *r.joules / static_cast<double>(window_tokens_), watts = *r.joules / window;
    line += format("  %.4g J/token", per_token);
    energy = ",\"joules_per_token\":" + number(per_token) + ",\"watts\":" + number(watts);
    rates.insert(rates.end(), {{"perf/joules_per_token", per_token}, {"perf/watts", watts}});
  }
  log().info(line + "  ETA " + time_text(eta));
  write(format("{\"step\":%lld,\"tokens\":%lld,\"sequences\":%lld,\"epoch\":%lld", static_cast<long long>(r.step),
               static_cast<long long>(r.tokens), static_cast<long long>(r.sequences), static_cast<long long>(r.epoch)) +
        ",\"loss\":" + number(r.loss) + ",\"grad_norm\":" + number(r.grad_norm) + ",\"lr\":" + number(r.lr) +
        ",\"loss_scale\":" + number(r.loss_scale) + ",\"tokens_per_s\":" + number(rate) + ",\"tflops_causal\":" +
        number(causal / 1e12) + ",\"tflops_full\":" + number(full / 1e12) + ",\"mfu\":" + number(mfu) +
        (r.matmul_rate > 0 ? ",\"matmul_tflops\":" + number(r.matmul_rate / 1e12) : std::string()) +
        ",\"memory_gib\":" + number(memory_ / 1073741824.0) + ",\"step_s\":" + number(per_step) +
        phases_text(window_phases_, window_steps_) + energy + "}");
  tell_watchers(r, rates);
  last_progress_ = Clock::now();
  window_phases_ = {};
  window_ = 0;
  window_steps_ = window_tokens_ = 0;
}

// A name per number: "train/grad_norm" is trireme_train_grad_norm to Prometheus. Its file is replaced as a whole.
void Reporter::tell_watchers(const StepReport& r, const EventFile::Scalars& rates) {
  EventFile::Scalars scalars = {{"train/loss", r.loss},
                                {"train/grad_norm", r.grad_norm},
                                {"train/lr", r.lr},
                                {"train/tokens", static_cast<double>(r.tokens)}};
  scalars.insert(scalars.end(), rates.begin(), rates.end());
  if (scalars_) scalars_->write(r.step, scalars);
  const std::string& path = deck_.log.prometheus;
  if (path.empty()) return;
  scalars.emplace_back("step", static_cast<double>(r.step));
  std::ofstream out(path + ".part");
  for (const auto& [tag, value] : scalars) {
    std::string name = "trireme_" + tag;
    std::replace(name.begin(), name.end(), '/', '_');
    out << "# TYPE " << name << " gauge\n"
        << name << "{run=" << quoted(deck_.run.name) << "} " << format("%.9g", value) << '\n';
  }
  out.close();
  if (!out || std::rename((path + ".part").c_str(), path.c_str()) != 0)
    throw Error(Exit::data, "cannot write log.prometheus = " + path + ": check its folder and permissions");
}

void Reporter::held_out(const char* part, std::int64_t step, double loss, double seconds) {
  if (voice_ == Voice::silent) return;
  log().info(format("step %lld  %s loss %.5f  (perplexity %.3f, %.2f s)", static_cast<long long>(step), part, loss,
                    std::exp(loss), seconds));
  const char* tag = std::strcmp(part, "test") == 0 ? "test/loss" : "eval/loss";
  if (scalars_) scalars_->write(step, {{tag, loss}});
  write(format("{\"step\":%lld,\"%s_loss\":", static_cast<long long>(step), part) + number(loss) + "}");
}

void Reporter::validation(std::int64_t step, double loss, double seconds) {
  held_out("validation", step, loss, seconds);
}

void Reporter::test(std::int64_t step, double loss, double seconds) {
  held_out("test", step, loss, seconds);
}

void Reporter::busy(std::int64_t step, const BusyTimes& times) {
  if (voice_ == Voice::silent) return;
  write(format("{\"step\":%lld,\"busy_min_s\":", static_cast<long long>(step)) + number(times.min) +
        ",\"busy_median_s\":" + number(times.median) + ",\"busy_max_s\":" + number(times.max) +
        format(",\"slowest_rank\":%d}", times.slowest));
}

void Reporter::event(std::int64_t step, const std::string& kind, const std::string& text) {
  event(step, kind, text, {});
}

void Reporter::event(std::int64_t step, const std::string& kind, const std::string& text, const Numbers& numbers) {
  if (voice_ == Voice::silent) return;
  log().info(text);
  std::string more;
  for (const auto& [name, value] : numbers) more += "," + quoted(name) + ":" + number(value);
  write(format("{\"step\":%lld,\"event\":", static_cast<long long>(step)) + quoted(kind) + ",\"text\":" + quoted(text) +
        more + "}");
}

}  // namespace trireme
