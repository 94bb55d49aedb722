#include "trireme/train/hang.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "trireme/base/log.h"

namespace trireme {

namespace {

constexpr double k_patience_for_files = 6;
constexpr std::size_t k_lines = 64;

double seconds_since(std::int64_t ns) {
  return 1e-9 * static_cast<double>(monotonic_ns() - ns);
}

std::int64_t number_on(const RankSight::Count& count, std::int64_t like) {
  return like < 0 ? count.n_lane : count.n_main;
}

// Who has not begun the operation that `a` is in; when all have, who is elsewhere now (its MPI does not move).
std::vector<std::size_t> waits_for(const std::vector<RankSight>& sights, const RankSight& a) {
  std::vector<std::size_t> missing, elsewhere;
  if (a.operation == Operation::none) return {};
  for (std::size_t i = 0; i < sights.size(); ++i) {
    const RankSight& b = sights[i];
    if (b.rank == a.rank) continue;
    if (a.operation == Operation::device) {  // what the device waits for is in some queue: who queued less?
      for (const RankSight::Count& mine : a.counts) {
        const RankSight::Count* its = b.count_of(mine.id);
        const bool less = its != nullptr && (its->n_main < mine.n_main || its->n_lane < mine.n_lane);
        if (less && mine.id != 1) missing.push_back(i);
      }
      continue;
    }
    const RankSight::Count* count = b.count_of(a.communicator);
    if (count == nullptr) continue;
    if (number_on(*count, a.number) < std::abs(a.number)) missing.push_back(i);
    const bool there = b.operation != Operation::none && b.communicator == a.communicator && b.number == a.number;
    if (!there) elsewhere.push_back(i);
  }
  return missing.empty() ? elsewhere : missing;
}

std::string place_of(const RankSight& s) {
  return "rank " + std::to_string(s.rank) + " on " + s.host + (s.device.empty() ? "" : ", " + s.device);
}

std::string operation_text(const RankSight& s) {
  const RankSight::Count* count = s.count_of(s.communicator);
  std::string text = name_of(s.operation);
  if (count != nullptr)
    text += format(" number %lld on %s", static_cast<long long>(std::abs(s.number)), count->name.c_str());
  return s.bytes > 0 ? text + ", " + bytes_text(static_cast<double>(s.bytes)) : text;
}

std::string state_text(const RankSight& s, double patience) {
  if (s.silent > patience) return format("gives no sign of life for %.1f s: its process is stopped or gone", s.silent);
  if (s.operation == Operation::none) return format("computes or reads for %.1f s, last: %s", s.since, s.last.c_str());
  return format("waits %.1f s in %s", s.since, operation_text(s).c_str());
}

std::string names_of(const std::vector<RankSight>& sights, std::vector<std::size_t> which) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(which.size(), 8); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(sights[which[i]].rank);
  }
  return which.size() > 8 ? text + ", ..." : text;
}

// Ranks that met in one operation but called different ones.
std::string mismatch_in(const std::vector<RankSight>& sights) {
  for (const RankSight& a : sights) {
    for (const RankSight& b : sights) {
      const bool same = a.rank < b.rank && a.operation != Operation::none && b.operation != Operation::none &&
                        a.communicator == b.communicator && a.number == b.number && a.number > 0;
      const bool pair = (a.operation == Operation::send && b.operation == Operation::recv) ||
                        (a.operation == Operation::recv && b.operation == Operation::send);
      if (!same || (a.bytes == b.bytes && (a.operation == b.operation || pair))) continue;
      return "  " + place_of(a) + " and " + place_of(b) + " called different operations: " + operation_text(a) + "; " +
             operation_text(b) + "\n";
    }
  }
  return "";
}

// Ranks that wait for rank `to`, themselves or through others.
std::size_t n_waiting_for(const std::vector<std::vector<std::size_t>>& edges, std::size_t to) {
  std::vector<bool> reaches(edges.size(), false);
  reaches[to] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      const bool now = std::any_of(edges[i].begin(), edges[i].end(), [&](std::size_t j) { return reaches[j]; });
      changed = changed || (now && !reaches[i]);
      reaches[i] = reaches[i] || now;
    }
  }
  return static_cast<std::size_t>(std::count(reaches.begin(), reaches.end(), true)) - 1;
}

}  // namespace

const RankSight::Count* RankSight::count_of(std::uint64_t id) const {
  const auto found = std::find_if(counts.begin(), counts.end(), [id](const Count& count) { return count.id == id; });
  return found == counts.end() ? nullptr : &*found;
}

RankSight sight_of(const Board& board) {
  RankSight s;
  s.rank = static_cast<int>(board.rank);
  s.host = board.host.data();
  s.device = board.device.data();
  s.silent = seconds_since(board.life_ns);
  s.since = seconds_since(board.changed_ns);
  s.step = board.step;
  const std::int64_t n = board.n_communicators.load(std::memory_order_acquire);
  for (std::int64_t i = 0; i < n; ++i) {
    const Board::Communicator& c = board.communicators[static_cast<std::size_t>(i)];
    s.counts.push_back({static_cast<std::uint64_t>(c.id.load()), c.name.data(), c.size, c.n_main, c.n_lane});
  }
  const std::int64_t waiting = board.waiting.load(std::memory_order_acquire), records = board.n_records;
  const std::int64_t shown = waiting > 0 ? waiting - 1 : records - 1;
  if (shown < 0) return s;
  const Board::Record& record = board.records[static_cast<std::size_t>(shown) % Board::k_kept];
  const std::int64_t index = record.communicator;
  s.operation = static_cast<Operation>(record.operation.load());
  s.number = record.number;
  s.bytes = record.bytes;
  s.communicator = index >= 0 && index < n ? s.counts[static_cast<std::size_t>(index)].id : 0;
  s.last = operation_text(s);
  if (waiting <= 0) s.operation = Operation::none;
  return s;
}

std::string pack(const std::vector<RankSight>& sights) {
  std::ostringstream out;
  for (const RankSight& s : sights) {
    out << s.rank << ' ' << std::quoted(s.host) << ' ' << std::quoted(s.device) << ' ' << s.silent << ' ' << s.since
        << ' ' << s.step << ' ' << static_cast<int>(s.operation) << ' ' << s.communicator << ' ' << s.number << ' '
        << s.bytes << ' ' << std::quoted(s.last) << ' ' << s.counts.size();
    for (const RankSight::Count& c : s.counts) {
      out << ' ' << c.id << ' ' << std::quoted(c.name) << ' ' << c.size << ' ' << c.n_main << ' ' << c.n_lane;
    }
    out << '\n';
  }
  return out.str();
}

std::vector<RankSight> unpack_sights(const std::string& text) {
  std::vector<RankSight> sights;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    RankSight s;
    int operation = 0;
    std::size_t n = 0;
    in >> s.rank >> std::quoted(s.host) >> std::quoted(s.device) >> s.silent >> s.since >> s.step >> operation >>
        s.communicator >> s.number >> s.bytes >> std::quoted(s.last) >> n;
    s.operation = static_cast<Operation>(operation);
    for (std::size_t i = 0; in && i < std::min(n, Board::k_communicators); ++i) {
      RankSight::Count c;
      in >> c.id >> std::quoted(c.name) >> c.size >> c.n_main >> c.n_lane;
      s.counts.push_back(c);
    }
    if (in) sights.push_back(s);
  }
  return sights;
}

std::optional<std::size_t> first_to_blame(const std::vector<RankSight>& sights, double patience) {
  std::vector<std::vector<std::size_t>> edges;
  for (const RankSight& s : sights) {
    edges.push_back(s.silent > patience ? std::vector<std::size_t>{} : waits_for(sights, s));
  }
  std::optional<std::size_t> first;
  std::size_t most = 0;
  for (std::size_t i = 0; i < sights.size(); ++i) {
    const bool silent = sights[i].silent > patience;
    if (!silent && (!edges[i].empty() || sights[i].operation != Operation::none)) continue;
    const std::size_t n = n_waiting_for(edges, i) + (silent ? sights.size() : 0);
    if (first && n <= most) continue;
    first = i;
    most = n;
  }
  return first;
}

std::optional<std::string> hang_report(const std::vector<RankSight>& sights, double patience) {
  const auto stuck = [&](const RankSight& s) {
    const double limit = s.operation == Operation::files ? k_patience_for_files * patience : patience;
    return s.silent > patience || (s.operation != Operation::none && s.since > limit);
  };
  if (std::none_of(sights.begin(), sights.end(), stuck)) return std::nullopt;
  std::int64_t step = sights.front().step;
  for (const RankSight& s : sights) step = std::min(step, s.step);
  std::string text = format("hang: in step %lld some rank has made no progress for %.1f s (run.hang_minutes)\n",
                            static_cast<long long>(step), patience);
  const std::optional<std::size_t> first = first_to_blame(sights, patience);
  if (first)
    text += "  did not arrive: " + place_of(sights[*first]) + ": " + state_text(sights[*first], patience) + "\n";
  if (!first) text += "  all ranks wait, for each other or for a device, network or file system that does not answer\n";
  text += mismatch_in(sights);
  std::size_t lines = 0;
  for (std::size_t i = 0; i < sights.size() && lines < k_lines; ++i) {
    if (first && i == *first) continue;
    const std::vector<std::size_t> others = waits_for(sights, sights[i]);
    text += "  " + place_of(sights[i]) + ": " + state_text(sights[i], patience);
    if (!others.empty() && sights[i].silent <= patience) text += "; for rank " + names_of(sights, others);
    text += "\n";
    ++lines;
  }
  if (lines == k_lines) text += format("  and %zu more ranks\n", sights.size() - lines - (first ? 1 : 0));
  return text + "  The job is ended; start it again, it resumes from the last checkpoint.";
}

}  // namespace trireme
