// SPDX-License-Identifier: Apache-2.0
#include "policy/algorithms/knapsack.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace cinch::policy {
namespace {

using Options = std::vector<KnapsackOption>;

constexpr double close_enough = 0.002;
constexpr std::size_t most_partials = 4096;
constexpr std::size_t most_dynamic = 48;  // entries; with more, the greedy selection is close

/// Indices of the options on the lower convex hull, by growing size and falling cost.
std::vector<std::uint32_t> lower_hull(const Options& options) {
  std::vector<std::uint32_t> order(options.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(
      order, {}, [&](std::uint32_t i) { return std::tuple(options[i].size, options[i].cost, i); });
  std::vector<std::uint32_t> hull;
  for (const std::uint32_t next : order) {
    const KnapsackOption& c = options[next];
    if (!hull.empty() && c.cost >= options[hull.back()].cost) continue;
    while (hull.size() >= 2) {
      const KnapsackOption& a = options[hull[hull.size() - 2]];
      const KnapsackOption& b = options[hull.back()];
      // b lies on or above the line from a to c.
      if ((b.cost - a.cost) * (c.size - a.size) < (c.cost - a.cost) * (b.size - a.size)) break;
      hull.pop_back();
    }
    hull.push_back(next);
  }
  return hull;
}

struct Upgrade {
  double gain;  // cost saved per size
  std::uint32_t entry;
  std::uint32_t to;  // index into the entry's hull
};

void total(std::span<const Options> entries, double capacity, Selection& selection) {
  selection.size = selection.cost = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    selection.size += entries[i][selection.chosen[i]].size;
    selection.cost += entries[i][selection.chosen[i]].cost;
  }
  selection.fits = selection.size <= capacity;
}

/// Exchanges single options for cheaper ones that fit, the most saved first, until none fits.
void improve(std::span<const Options> entries, double capacity, Selection& selection) {
  for (bool better = true; better;) {
    better = false;
    double most = 0;
    std::size_t entry = 0;
    std::uint32_t option = 0;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const KnapsackOption& now = entries[i][selection.chosen[i]];
      for (std::uint32_t j = 0; j < entries[i].size(); ++j) {
        const KnapsackOption& then = entries[i][j];
        if (selection.size - now.size + then.size > capacity) continue;
        if (now.cost - then.cost <= most) continue;
        most = now.cost - then.cost;
        entry = i;
        option = j;
        better = true;
      }
    }
    if (!better) break;
    selection.chosen[entry] = option;
    total(entries, capacity, selection);
  }
}

/// @param bound Set to a lower bound of the optimum's cost.
Selection greedy(std::span<const Options> entries, double capacity, double& bound) {
  Selection selection;
  std::vector<std::vector<std::uint32_t>> hulls;
  std::vector<Upgrade> upgrades;
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    const auto& hull = hulls.emplace_back(lower_hull(entries[i]));
    selection.chosen.push_back(hull.front());
    for (std::uint32_t k = 1; k < hull.size(); ++k) {
      const KnapsackOption& from = entries[i][hull[k - 1]];
      const KnapsackOption& to = entries[i][hull[k]];
      upgrades.push_back({(from.cost - to.cost) / (to.size - from.size), i, k});
    }
  }
  total(entries, capacity, selection);
  bound = selection.cost;
  if (!selection.fits) return selection;
  std::ranges::sort(upgrades, {},
                    [](const Upgrade& u) { return std::tuple(-u.gain, u.entry, u.to); });
  // The relaxation takes a part of the first upgrade that does not fit. The selection goes on to
  // smaller upgrades, but takes no further one of the same entry.
  std::vector<bool> stopped(entries.size(), false);
  bool relaxed_done = false;
  for (const Upgrade& u : upgrades) {
    const std::uint32_t after = hulls[u.entry][u.to];
    const double more =
        entries[u.entry][after].size - entries[u.entry][hulls[u.entry][u.to - 1]].size;
    const double saved = u.gain * more;
    if (stopped[u.entry]) continue;
    if (selection.size + more > capacity) {
      if (!relaxed_done) bound = selection.cost - u.gain * (capacity - selection.size);
      relaxed_done = true;
      stopped[u.entry] = true;
      continue;
    }
    selection.chosen[u.entry] = after;
    selection.size += more;
    selection.cost -= saved;
  }
  total(entries, capacity, selection);
  if (!relaxed_done) bound = selection.cost;
  improve(entries, capacity, selection);
  return selection;
}

/// A selection for the first entries that no other beats in both size and cost.
struct Partial {
  double size;
  double cost;
  std::uint32_t parent;  // index into the partial selections without the last entry
  std::uint32_t option;
};

/// Removes partial selections that others beat. If more than `most_partials` remain, keeps only the
/// cheapest in each of `most_partials` equal ranges of size.
void thin(std::vector<Partial>& partials, double capacity) {
  std::ranges::sort(partials, {}, [](const Partial& p) {
    return std::tuple(p.size, p.cost, p.parent, p.option);
  });
  std::vector<Partial> kept;
  for (const Partial& p : partials) {
    if (kept.empty() || p.cost < kept.back().cost) kept.push_back(p);
  }
  if (kept.size() > most_partials) {
    const double share = capacity / static_cast<double>(most_partials);
    std::vector<Partial> fewer;
    for (const Partial& p : kept) {
      const bool same =
          !fewer.empty() && std::floor(fewer.back().size / share) == std::floor(p.size / share);
      if (same && fewer.size() > 1) fewer.pop_back();  // costs fall: the later one is cheaper
      fewer.push_back(p);
    }
    kept = std::move(fewer);
  }
  partials = std::move(kept);
}

/// Exact while no more than `most_partials` partial selections are unbeaten.
Selection dynamic(std::span<const Options> entries, double capacity) {
  Selection selection;
  if (entries.empty() || entries.size() > most_dynamic) return selection;
  std::vector<std::vector<Partial>> steps = {{{0, 0, 0, 0}}};
  for (const Options& options : entries) {
    std::vector<Partial> next;
    const std::vector<Partial>& before = steps.back();
    for (std::uint32_t parent = 0; parent < before.size(); ++parent) {
      for (std::uint32_t j = 0; j < options.size(); ++j) {
        const double size = before[parent].size + options[j].size;
        if (size <= capacity)
          next.push_back({size, before[parent].cost + options[j].cost, parent, j});
      }
    }
    if (next.empty()) return selection;
    thin(next, capacity);
    steps.push_back(std::move(next));
  }
  selection.chosen.resize(entries.size());
  std::uint32_t at = static_cast<std::uint32_t>(steps.back().size()) - 1;  // the cheapest is last
  for (std::size_t i = entries.size(); i-- > 0;) {
    const Partial& p = steps[i + 1][at];
    selection.chosen[i] = p.option;
    at = p.parent;
  }
  total(entries, capacity, selection);
  if (selection.fits) improve(entries, capacity, selection);
  return selection;
}

}  // namespace

Selection choose_options(std::span<const Options> entries, double capacity) {
  double bound = 0;
  Selection first = greedy(entries, capacity, bound);
  if (!first.fits || first.cost - bound <= close_enough * bound) return first;
  Selection second = dynamic(entries, capacity);
  return second.fits && second.cost < first.cost ? second : first;
}

}  // namespace cinch::policy
