#include "nearest.h"

#include <algorithm>

namespace trireme {

namespace {

constexpr int k_far = 1000;

// Distance with two habits of deck writers forgiven: extra parts ("num_layers" for "layers") and a missing end ("seq").
int distance(const std::string& word, const std::string& known) {
  const int edits = edit_distance(word, known);
  const bool part = known.size() >= 3 && word.find(known) != std::string::npos;
  const bool start = word.size() >= 3 && known.starts_with(word);
  if (part || start) return std::min(edits, 2);
  return edits <= std::max<int>(1, static_cast<int>(known.size()) / 3) ? edits : k_far;
}

}  // namespace

int edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string nearest_word(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  int best_distance = k_far;
  for (const std::string& candidate : known) {
    const int d = distance(word, candidate);
    if (d < best_distance) best_distance = d, best = candidate;
  }
  return best;
}

std::string nearest_key(const std::string& section, const std::string& name, const FieldList& list) {
  std::string best;
  int best_distance = k_far;
  for (const Field& field : list.fields) {
    const bool same_section = field.section == section || distance(section, field.section) < k_far;
    const int d = distance(name, field.name) + (same_section ? 0 : 1);
    // Elsewhere only the very name counts: a lookalike in an unrelated section misleads.
    if (!same_section && field.name != name) continue;
    if (d < best_distance) best_distance = d, best = field.key();
  }
  return best;
}

}  // namespace trireme
