#pragma once
// The checkpoints of a run: what to resume from, and saving. It decides neither when to save nor when to stop. All
// functions are collective over the session.

#include <optional>
#include <string>

#include "trireme/comm/mpi.h"
#include "trireme/train/job.h"
#include "trireme/train/reporter.h"
#include "trireme/train/state.h"

namespace trireme {

class Saver {
 public:
  // data: fingerprint of the training tokens. All references must outlive it.
  Saver(const Deck& deck, const MpiSession& session, const Job& job, Engine& engine, Reporter& reporter,
        std::string data);

  // Loads what run.resume asks for into the engine; nothing: the run starts at step 0 (weights_only: with those
  // weights).
  std::optional<Progress> resume();
  void save(const Progress& progress);
  std::int64_t saved_step() const { return saved_step_; }  // -1: none
  double longest_save() const { return longest_; }         // seconds

 private:
  std::optional<Progress> load(const std::string& path, Contents contents);
  void check_model(const Attributes& attributes, const std::string& path) const;
  void check_data(const Attributes& attributes, const std::string& path) const;
  Attributes attributes_of(const Progress& progress) const;
  bool rank0() const { return session_.rank() == 0; }

  const Deck& deck_;
  const MpiSession& session_;
  const Job& job_;
  Engine& engine_;
  Reporter& reporter_;
  std::string data_, folder_;
  std::int64_t saved_step_ = -1;
  double longest_ = 0;
};

}  // namespace trireme
