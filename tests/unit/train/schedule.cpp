#include "trireme/train/schedule.h"

#include <algorithm>

#include "catch.h"
#include "walk.h"

using namespace trireme;

namespace {

struct Pipe {
  std::string name;
  int n_stages, n_micro, n_chunks;
  std::string text() const {
    return name + ": " + std::to_string(n_stages) + " stages, " + std::to_string(n_micro) + " micro-batches, " +
           std::to_string(n_chunks) + " chunks";
  }
  Schedule at(int stage) const { return make_schedule(name, stage, n_stages, n_micro, n_chunks); }
  std::vector<Schedule> all() const {
    std::vector<Schedule> schedules;
    for (int stage = 0; stage < n_stages; ++stage) schedules.push_back(at(stage));
    return schedules;
  }
};

std::vector<Pipe> many_pipes() {
  std::vector<Pipe> pipes;
  for (int n_stages = 1; n_stages <= 6; ++n_stages) {
    for (const int n_micro : {1, 2, 3, 4, 5, 6, 7, 12, 18, 24}) {
      pipes.push_back({"1f1b", n_stages, n_micro, 1});
      pipes.push_back({"gpipe", n_stages, n_micro, 1});
      for (int n_chunks = 2; n_chunks <= 4 && n_stages > 1; ++n_chunks) {
        if (n_micro % n_stages != 0) continue;
        pipes.push_back({"1f1b", n_stages, n_micro, n_chunks});
        pipes.push_back({"gpipe", n_stages, n_micro, n_chunks});
      }
    }
  }
  return pipes;
}

int count(const Schedule& schedule, const Action& action) {
  return static_cast<int>(std::count(schedule.begin(), schedule.end(), action));
}

std::ptrdiff_t place(const Schedule& schedule, const Action& action) {
  return std::find(schedule.begin(), schedule.end(), action) - schedule.begin();
}

}  // namespace

TEST_CASE("every schedule holds every action once and a backward after its forward") {
  for (const Pipe& pipe : many_pipes()) {
    INFO(pipe.text());
    for (const Schedule& schedule : pipe.all()) {
      REQUIRE(schedule.size() == static_cast<std::size_t>(2 * pipe.n_micro * pipe.n_chunks));
      for (int chunk = 0; chunk < pipe.n_chunks; ++chunk) {
        for (int micro = 0; micro < pipe.n_micro; ++micro) {
          const Action forward{Action::forward, chunk, micro}, backward{Action::backward, chunk, micro};
          REQUIRE(count(schedule, forward) == 1);
          REQUIRE(count(schedule, backward) == 1);
          REQUIRE(place(schedule, forward) < place(schedule, backward));
        }
      }
    }
  }
}

TEST_CASE("the gradients of a chunk start with micro-batch 0 and are complete after the last") {
  for (const Pipe& pipe : many_pipes()) {
    INFO(pipe.text());
    for (const Schedule& schedule : pipe.all()) {
      for (int chunk = 0; chunk < pipe.n_chunks; ++chunk) {
        std::vector<int> micros;
        for (const Action& a : schedule) {
          if (a.kind == Action::backward && a.chunk == chunk) micros.push_back(a.micro);
        }
        REQUIRE(std::is_sorted(micros.begin(), micros.end()));
      }
    }
  }
}

TEST_CASE("stages that walk their schedules together never wait for each other in a circle") {
  for (const Pipe& pipe : many_pipes()) {
    for (const Sends sends : {Sends::buffered, Sends::rendezvous}) {
      INFO(pipe.text() << (sends == Sends::rendezvous ? ", sends wait for their receives" : ", buffered sends"));
      WalkSettings settings;
      settings.sends = sends;

      const Walked walked = walk(pipe.all(), pipe.n_chunks, settings);

      INFO(walked.stuck);
      REQUIRE(walked.finished);
    }
  }
}

TEST_CASE("validation needs no more slots than training and does not get stuck") {
  for (const Pipe& pipe : many_pipes()) {
    INFO(pipe.text());
    WalkSettings settings;
    std::vector<Schedule> validation;
    for (int stage = 0; stage < pipe.n_stages; ++stage) {
      settings.n_slots.emplace_back();
      for (int chunk = 0; chunk < pipe.n_chunks; ++chunk) {
        settings.n_slots.back().push_back(max_in_flight(pipe.at(stage), chunk));
      }
      validation.push_back(forward_only(pipe.n_stages, pipe.n_micro, pipe.n_chunks));
      REQUIRE(validation.back().size() == static_cast<std::size_t>(pipe.n_micro * pipe.n_chunks));
    }

    const Walked walked = walk(validation, pipe.n_chunks, settings);

    INFO(walked.stuck);
    REQUIRE(walked.finished);
  }
}

TEST_CASE("1F1B keeps no more micro-batches than stages follow, GPipe keeps all") {
  for (const Pipe& pipe : many_pipes()) {
    INFO(pipe.text());
    for (int stage = 0; stage < pipe.n_stages; ++stage) {
      const Schedule schedule = pipe.at(stage);
      int in_all = 0;
      for (int chunk = 0; chunk < pipe.n_chunks; ++chunk) in_all += max_in_flight(schedule, chunk);
      if (pipe.name == "gpipe") REQUIRE(in_all == pipe.n_micro * pipe.n_chunks);
      if (pipe.name == "1f1b" && pipe.n_chunks == 1) REQUIRE(in_all == std::min(pipe.n_micro, pipe.n_stages - stage));
    }
  }
}

// Warm-up 2 (p - s - 1) + (v - 1) p and one more (Narayanan et al., 2021, section 2.2).
TEST_CASE("interleaved 1F1B keeps its warm-up and one more in flight") {
  for (const Pipe& pipe : many_pipes()) {
    if (pipe.n_chunks == 1 || pipe.name == "gpipe") continue;
    INFO(pipe.text());
    for (int stage = 0; stage < pipe.n_stages; ++stage) {
      int now = 0, most = 0;
      for (const Action& action : pipe.at(stage)) {
        now += action.kind == Action::forward ? 1 : -1;
        most = std::max(most, now);
      }
      const int warm_up = 2 * (pipe.n_stages - stage - 1) + (pipe.n_chunks - 1) * pipe.n_stages;
      REQUIRE(most == std::min(pipe.n_micro * pipe.n_chunks, warm_up + 1));
    }
  }
}

// m micro-batches, v chunks, p stages: m v (tf + tb) of work and (p - 1) (tf + tb) of bubble, times of one chunk.
TEST_CASE("the bubble is the ideal one: stages - 1 forwards and backwards of one chunk") {
  for (const Pipe& pipe : many_pipes()) {
    for (const int backward_time : {1, 2}) {
      INFO(pipe.text() << ", backward takes " << backward_time);
      WalkSettings settings;
      settings.sends = Sends::buffered;
      settings.backward_time = backward_time;

      const Walked walked = walk(pipe.all(), pipe.n_chunks, settings);

      REQUIRE(walked.time == (pipe.n_micro * pipe.n_chunks + pipe.n_stages - 1) * (1 + backward_time));
    }
  }
}

TEST_CASE("schedules of small pipelines are those of the papers") {
  CHECK(to_csv(one_f_one_b(0, 1, 3, 1)) == "F0.0,B0.0,F0.1,B0.1,F0.2,B0.2");
  CHECK(to_csv(one_f_one_b(0, 2, 3, 1)) == "F0.0,F0.1,B0.0,F0.2,B0.1,B0.2");
  CHECK(to_csv(one_f_one_b(1, 2, 3, 1)) == "F0.0,B0.0,F0.1,B0.1,F0.2,B0.2");
  CHECK(to_csv(gpipe(0, 2, 2, 1)) == "F0.0,F0.1,B0.0,B0.1");
  CHECK(to_csv(one_f_one_b(1, 2, 2, 2)) == "F0.0,F0.1,F1.0,B1.0,F1.1,B1.1,B0.0,B0.1");
}

TEST_CASE("interleaving refuses micro-batches that are no multiple of the stages") {
  CHECK_THROWS_AS(one_f_one_b(0, 2, 3, 2), std::logic_error);
  CHECK_THROWS_AS(make_schedule("2f2b", 0, 2, 2, 1), std::logic_error);
}
