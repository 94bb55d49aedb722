#pragma once
// The checkpoints of a run: what to resume from, and saving, in the background where that is possible. It decides
// neither when to save nor when to stop. All functions are collective over the session.

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "trireme/comm/mpi.h"
#include "trireme/train/background.h"
#include "trireme/train/job.h"
#include "trireme/train/reporter.h"
#include "trireme/train/snapshot.h"
#include "trireme/train/state.h"
#include "trireme/train/timeline.h"

namespace trireme {

class Saver {
 public:
  // data, tokenizer: fingerprints of the training tokens and of what made them (empty: not known). All references must
  // outlive it.
  Saver(const Deck& deck, const MpiSession& session, const Job& job, Engine& engine, Reporter& reporter,
        std::string data, std::string tokenizer);
  ~Saver();  // waits for what is being written
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Loads what run.resume asks for into the engine; nothing: the run starts at step 0 (weights_only: with those
  // weights).
  std::optional<Progress> resume();

  // Loads the last checkpoint that this run has resumed from or written; nothing when there is none.
  std::optional<Progress> roll_back();

  // Returns when the state may change again. A save that is still being written is waited for first. A failure is an
  // Error or a warning, as checkpoint.on_error says.
  void save(const Progress& progress);
  // For the last one of a run: returns when it is committed, throws when it is not.
  void save_now(const Progress& progress);
  // Between steps: reports what has been committed since; true when something has.
  bool poll();
  void wait();  // until nothing is being written

  std::int64_t saved_step() const { return saved_step_; }  // committed or on its way; -1: none
  bool in_flight() const { return in_flight_; }
  Timeline::Times last_write() const;               // of the last checkpoint that was begun; end 0: still in flight
  double longest_save() const { return longest_; }  // seconds until committed

 private:
  struct Saving {                        // the save in hand
    std::int64_t step = 0, before = -1;  // before: the step saved before
    double start = 0, stall = 0, seconds = 0;
    std::vector<std::string> complaints;
  };

  void choose_mode();
  std::optional<Progress> load(const std::string& path, Contents contents);
  std::optional<Progress> resume_automatically();
  std::vector<Stored> arrays() const;
  Attributes attributes_of(const Progress& progress) const;
  std::string path_of(std::int64_t step) const { return folder_ + "/" + checkpoint_name(step); }
  void begin(const Progress& progress, double start);
  // Writes, commits and retires; on any thread.
  void write(const std::vector<Stored>& arrays, const Attributes& attributes, Communicator& control, Backend& backend,
             Saving& saving) const;
  void write_in_background(const Progress& progress);
  void wait_for_the_copy();  // before anything changes
  std::optional<Error> write_at_once(const Progress& progress);
  std::optional<Error> report(std::optional<Error> error, const std::string& kind);
  void judge(const std::optional<Error>& error);  // by checkpoint.on_error
  bool rank0() const { return session_.rank() == 0; }

  const Deck& deck_;
  const MpiSession& session_;
  const Job& job_;
  Engine& engine_;
  Reporter& reporter_;
  std::string data_, tokenizer_, folder_, mode_;
  SaveOptions options_;
  std::int64_t saved_step_ = -1;
  double longest_ = 0;
  bool in_flight_ = false;
  std::atomic<bool> copied_ = true;  // the state may change
  Saving saving_;
  std::unique_ptr<Communicator> writers_;  // of the background threads
  std::unique_ptr<Snapshot> snapshot_;     // none: saves are synchronous
  Background background_;                  // ends before what it uses
};

}  // namespace trireme
