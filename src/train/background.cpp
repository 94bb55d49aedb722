#include "trireme/train/background.h"

#include <pthread.h>
#include <csignal>
#include <utility>

namespace trireme {

namespace {

// Signals are for the main thread: it is the one that asks for them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

std::optional<Error> error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(Exit::failed, error.what());
  }
  return std::nullopt;
}

}  // namespace

Background::~Background() {
  if (thread_.joinable()) thread_.join();
}

void Background::start(std::function<void()> work) {
  require(!thread_.joinable(), "background work is started when the one before is over");
  done_ = false;
  const SignalsBlocked blocked;  // the thread inherits it
  thread_ = std::thread([this, work = std::move(work)] {
    error_ = error_of(work);
    done_ = true;
  });
}

std::optional<Error> Background::join() {
  if (thread_.joinable()) thread_.join();
  return std::exchange(error_, std::nullopt);
}

}  // namespace trireme
