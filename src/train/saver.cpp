#include "trireme/train/saver.h"

#include <algorithm>
#include <ctime>
#include <exception>
#include <sstream>

#include "trireme/base/check.h"
#include "trireme/base/log.h"
#include "trireme/base/version.h"
#include "trireme/deck/read.h"
#include "trireme/train/resume.h"
#include "trireme/train/stop.h"

namespace trireme {

namespace {

constexpr double k_usable = 0.9;  // of the free memory of a node

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string gib(std::size_t bytes) {
  return bytes_text(static_cast<double>(bytes));
}

}  // namespace

Saver::Saver(const Deck& deck, const MpiSession& session, const Job& job, Engine& engine, Reporter& reporter,
             std::string data, std::string tokenizer)
    : deck_(deck),
      session_(session),
      job_(job),
      engine_(engine),
      reporter_(reporter),
      data_(std::move(data)),
      tokenizer_(std::move(tokenizer)),
      folder_(deck.run.output + "/checkpoints"),
      options_(options_from(deck.checkpoint)) {
  choose_mode();
}

Saver::~Saver() {
  engine_.before_updates(nullptr);
}

// Asynchronous where a second thread may call MPI and every node has room for the snapshots of its ranks.
void Saver::choose_mode() {
  mode_ = "synchronous";
  if (!deck_.checkpoint.async || deck_.checkpoint.every == 0) return;
  if (session_.size() > 1 && !session_.any_thread()) {
    mode_ += ": this MPI library does not offer MPI_THREAD_MULTIPLE";
    return;
  }
  const std::size_t bytes = snapshot_bytes(everything(engine_, Contents::all)), free = job_.host->memory_bytes();
  const double needed = static_cast<double>(bytes) * session_.local_size();
  if (session_.any(free > 0 && needed > k_usable * static_cast<double>(free))) {
    mode_ += ": the snapshots of the ranks of a node do not fit in its free memory (rank 0: " + gib(bytes) +
             " for each of " + std::to_string(session_.local_size()) + " ranks, " + gib(free) + " free)";
    return;
  }
  writers_ = session_.world(*job_.host, Memory::host);
  snapshot_ = std::make_unique<Snapshot>(*job_.backend, bytes);
  engine_.before_updates([this] { wait_for_the_copy(); });
  mode_ = "asynchronous, a snapshot of " + gib(bytes) + " on rank 0";
}

// --- resuming

std::optional<Progress> Saver::resume() {
  log().info("saves       " + mode_);
  if (deck_.run.resume == "never") return std::nullopt;
  if (deck_.run.resume == "auto") return resume_automatically();
  return load(deck_.run.resume, deck_.run.weights_only ? Contents::weights : Contents::all);
}

// The newest checkpoint whose data are good, too.
std::optional<Progress> Saver::resume_automatically() {
  std::vector<std::string> found, complaints;
  std::string list;
  if (rank0()) found = find_checkpoints(folder_, &complaints);
  for (const std::string& path : found) list += path + "\n";
  for (const std::string& complaint : complaints) log().warn("passed over: " + complaint);
  std::istringstream lines(session_.broadcast(list));
  bool damaged = session_.any(!complaints.empty());
  for (std::string path; std::getline(lines, path);) {
    try {
      return load(path, Contents::all);
    } catch (const Damaged& error) {
      log().warn(std::string("passed over: ") + error.what());
      damaged = true;
    }
  }
  if (!damaged) return std::nullopt;
  throw SharedError(Exit::data, "none of the checkpoints in " + folder_ +
                                    " can be used (see the warnings above): bring back a good copy, or set run.resume "
                                    "= \"never\" to start anew");
}

std::optional<Progress> Saver::roll_back() {
  wait();
  if (session_.any(saved_step_ < 0)) return std::nullopt;
  return load(path_of(saved_step_), Contents::all);
}

std::optional<Progress> Saver::load(const std::string& path, Contents contents) {
  const double start = wall_seconds();
  const CheckpointHead head = read_head(session_, path);
  check_model(deck_, head.attributes, path);
  if (contents == Contents::all) check_data(deck_, data_, tokenizer_, head.attributes, path);
  try {
    load_checkpoint(path, to_load(engine_, contents, head.masters), *job_.control, *job_.backend);
  } catch (const Damaged& error) {
    if (deck_.run.resume == "auto") throw;
    throw SharedError(error.code, error.what());
  } catch (const Error& error) {
    if (error.code != Exit::data) throw;
    throw SharedError(error.code, error.what());
  }
  settle_loaded(engine_, head.masters);
  if (contents == Contents::weights) {
    log().info("weights from " + path);
    return std::nullopt;
  }
  const Progress progress = progress_from(head.attributes, path);
  saved_step_ = progress.step;
  const auto grid = head.attributes.find("grid");
  log().info(format("resumed from %s: step %lld, %s tokens, written on %s (%.2f s)", path.c_str(),
                    static_cast<long long>(progress.step), count_text(static_cast<double>(progress.tokens)).c_str(),
                    grid != head.attributes.end() ? grid->second.c_str() : "an unknown grid", wall_seconds() - start));
  return progress;
}

// --- saving

std::vector<Stored> Saver::arrays() const {
  std::vector<Stored> arrays = everything(engine_, Contents::all);
  if (deck_.checkpoint.blocks == "grid") return arrays;
  for (Stored& array : arrays) array.chunk = {};
  return arrays;
}

Attributes Saver::attributes_of(const Progress& progress) const {
  Attributes attributes = to_attributes(progress);
  attributes["deck"] = print_deck(deck_);
  attributes["seed"] = std::to_string(deck_.run.seed);
  attributes["grid"] = to_string(job_.grid->here());
  attributes["data"] = data_;
  if (!tokenizer_.empty()) attributes["tokenizer"] = tokenizer_;
  attributes["date"] = utc_now();
  attributes["git_revision"] = git_revision();
  return attributes;
}

void Saver::write(const std::vector<Stored>& arrays, const Attributes& attributes, Communicator& control,
                  Backend& backend, Saving& saving) const {
  save_checkpoint(path_of(saving.step), arrays, attributes, control, backend, options_);
  saving.complaints =
      commit_checkpoint(folder_, saving.step, deck_.checkpoint.keep, deck_.checkpoint.keep_every, control);
  saving.seconds = wall_seconds() - saving.start;
}

void Saver::save(const Progress& progress) {
  wait();
  if (snapshot_) return write_in_background(progress);
  judge(write_at_once(progress));
}

void Saver::save_now(const Progress& progress) {
  wait();
  if (const std::optional<Error> error = write_at_once(progress))
    throw SharedError(error->code, std::string("the last save failed: ") + error->what());
}

void Saver::begin(const Progress& progress, double start) {
  saving_ = {};
  saving_.step = progress.step;
  saving_.before = saved_step_;
  saving_.start = start;
  saved_step_ = progress.step;
}

// Memory of the host is copied by the thread, too, while the next step computes its gradients; a device copies in the
// order of its stream, and is waited for here.
void Saver::write_in_background(const Progress& progress) {
  begin(progress, wall_seconds());
  std::vector<Stored> originals = arrays();
  const bool beside = job_.backend->host_memory();
  if (!beside) originals = snapshot_->take(originals);
  saving_.stall = wall_seconds() - saving_.start;
  copied_ = !beside;
  in_flight_ = true;
  background_.start([this, beside, originals = std::move(originals), attributes = attributes_of(progress)] {
    std::vector<Stored> copies = originals;
    std::exception_ptr failure;
    try {
      if (beside) copies = snapshot_->take(originals);
    } catch (...) {
      failure = std::current_exception();
    }
    copied_ = true;  // whatever became of it: nobody waits for ever
    copied_.notify_all();
    if (failure) std::rethrow_exception(failure);
    write(copies, attributes, *writers_, *job_.host, saving_);
  });
  reporter_.event(progress.step, "queued", "queued " + path_of(progress.step));
}

void Saver::wait_for_the_copy() {
  if (copied_) return;
  const double start = wall_seconds();
  copied_.wait(false);
  saving_.stall += wall_seconds() - start;
}

std::optional<Error> Saver::write_at_once(const Progress& progress) {
  begin(progress, wall_seconds());
  job_.backend->synchronize();
  std::optional<Error> error;
  try {
    write(arrays(), attributes_of(progress), *job_.control, *job_.backend, saving_);
  } catch (const Error& failure) {
    error = failure;
  }
  saving_.stall = saving_.seconds;
  return report(error, "saved");
}

Timeline::Times Saver::last_write() const {
  const auto ns = [](double seconds) { return static_cast<std::int64_t>(1e9 * seconds); };
  return {ns(saving_.start), in_flight_ ? 0 : ns(saving_.start + saving_.seconds)};
}

bool Saver::poll() {
  if (!in_flight_ || session_.any(!background_.done())) return false;
  in_flight_ = false;
  const std::optional<Error> error = report(background_.join(), "committed");
  judge(error);
  return !error;
}

void Saver::wait() {
  if (!in_flight_) return;
  const double start = wall_seconds();
  std::optional<Error> error = background_.join();
  saving_.stall += wall_seconds() - start;
  in_flight_ = false;
  judge(report(error, "committed"));
}

std::optional<Error> Saver::report(std::optional<Error> error, const std::string& kind) {
  for (const std::string& complaint : saving_.complaints) log().warn(complaint);
  if (error) {
    saved_step_ = saving_.before;
    return error;
  }
  longest_ = std::max(longest_, saving_.seconds);
  reporter_.event(saving_.step, kind,
                  format("%s %s (%.2f s, of which training waited %.2f s)", kind.c_str(), path_of(saving_.step).c_str(),
                         saving_.seconds, saving_.stall),
                  {{"total_s", saving_.seconds}, {"stall_s", saving_.stall}});
  return std::nullopt;
}

// All ranks have met the same error.
void Saver::judge(const std::optional<Error>& error) {
  if (!error) return;
  const std::string text = std::string(error->what()) + "; older checkpoints are untouched";
  if (deck_.checkpoint.on_error == "stop" || error->code != Exit::data)
    throw SharedError(error->code, text + " (checkpoint.on_error = \"continue\" goes on without)");
  reporter_.event(saving_.step, "save_failed",
                  "WARNING: step " + std::to_string(saving_.step) + " is not saved: " + text, {});
}

}  // namespace trireme
