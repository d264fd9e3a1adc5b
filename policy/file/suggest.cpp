// SPDX-License-Identifier: Apache-2.0
#include "policy/file/suggest.h"

#include <algorithm>
#include <vector>

namespace cinch::policy {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> d((a.size() + 1) * width);
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& cell = d[i * width + j];
      if (i == 0 || j == 0) {
        cell = i + j;
        continue;
      }
      cell = std::min({d[(i - 1) * width + j] + 1, d[i * width + j - 1] + 1,
                       d[(i - 1) * width + j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cell = std::min(cell, d[(i - 2) * width + j - 2] + 1);
      }
    }
  }
  return d.back();
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t longest = 64;  // nobody mistypes a name into something longer
  if (word.empty() || word.size() > longest) return "";
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? "" : "; did you mean \"" + *best + "\"?";
}

std::string quoted_list(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ", ";
    text += '"' + word + '"';
  }
  return text;
}

}  // namespace cinch::policy
