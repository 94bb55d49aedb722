#pragma once
// A line of work: one thread makes items, several work on them, the caller's thread takes the results in the order of
// the items. The number of items under way is bounded. It knows nothing of text.

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

template <class Item, class Result>
class OrderedWork {
 public:
  // make() gives items until it gives none; work(item, thread) may run on any thread; take(result) runs here, in order.
  // The first exception of any of them ends all and is thrown here.
  template <class Make, class Work, class Take>
  void run(int n_threads, Make make, Work work, Take take) {
    most_ = 3 * static_cast<std::int64_t>(n_threads) + 2;
    std::vector<std::thread> threads;
    threads.emplace_back([&] { guarded([&] { make_all(make); }); });
    for (int i = 0; i < n_threads; ++i) threads.emplace_back([&, i] { guarded([&] { work_all(work, i); }); });
    guarded([&] { take_all(take); });
    for (std::thread& thread : threads) thread.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  template <class Act>
  void guarded(Act act) {
    try {
      act();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      changed_.notify_all();
    }
  }
  template <class Make>
  void make_all(Make& make) {
    while (true) {
      std::optional<Item> item = make();
      std::unique_lock lock(mutex_);
      if (!item) made_all_ = true;
      changed_.wait(lock, [&] { return failure_ || made_all_ || n_made_ - n_taken_ < most_; });
      if (item && !failure_) items_.emplace_back(n_made_++, std::move(*item));
      changed_.notify_all();
      if (made_all_ || failure_) return;
    }
  }
  template <class Work>
  void work_all(Work& work, int thread) {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return failure_ || made_all_ || !items_.empty(); });
      if (failure_ || items_.empty()) return;
      auto [number, item] = std::move(items_.front());
      items_.pop_front();
      lock.unlock();
      Result result = work(item, thread);
      lock.lock();
      results_.emplace(number, std::move(result));
      changed_.notify_all();
    }
  }
  template <class Take>
  void take_all(Take& take) {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock,
                    [&] { return failure_ || results_.contains(n_taken_) || (made_all_ && n_taken_ == n_made_); });
      if (failure_ || (made_all_ && n_taken_ == n_made_)) return;
      auto node = results_.extract(n_taken_);
      lock.unlock();
      take(node.mapped());
      lock.lock();
      ++n_taken_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::int64_t, Item>> items_;
  std::map<std::int64_t, Result> results_;
  std::exception_ptr failure_;
  std::int64_t n_made_ = 0, n_taken_ = 0, most_ = 0;
  bool made_all_ = false;
};
