// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/report/compare.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

namespace cinch::cli {
namespace {

using telemetry::Report;

bool has(const Report& report, std::string_view field) {
  return std::ranges::find(report.missing, field) == report.missing.end();
}

/// B as a multiple of A: "0.50x", or "same", "new", "gone"; "-" when both are 0.
std::string relative(double a, double b) {
  if (a == b && a != 0) return "same";
  if (!(a > 0) || !(b > 0)) return a == b ? "-" : b > a ? "new" : "gone";
  char text[32];
  std::snprintf(text, sizeof text, b / a < 9.995 ? "%.2fx" : "%.0fx", b / a);
  return text;
}

/// A row of the comparison of totals.
struct Figure {
  const char* name;
  const char* field;
  double (*of)(const Report&);
  std::string (*text)(double);
};

std::string as_bytes(double value) {
  return human_bytes(static_cast<std::uint64_t>(value));
}
std::string as_count(double value) {
  return std::to_string(static_cast<std::uint64_t>(value));
}
std::string as_ratio(double value) {
  return value == 0 ? "-" : human_ratio(value);
}

template <auto Member>
double member(const Report& report) {
  return static_cast<double>(report.*Member);
}

double in_cinch_per_step(const Report& report) {
  return report.steps == 0 ? 0 : report.seconds_in_cinch / static_cast<double>(report.steps);
}

constexpr Figure figures[] = {
    {"raw at peak", "raw_bytes_at_peak", member<&Report::raw_bytes_at_peak>, as_bytes},
    {"stored at peak", "stored_bytes_at_peak", member<&Report::stored_bytes_at_peak>, as_bytes},
    {"ratio", "ratio", member<&Report::ratio>, as_ratio},
    {"held by program", "held_elsewhere_bytes_at_peak",
     member<&Report::held_elsewhere_bytes_at_peak>, as_bytes},
    {"offloaded", "offloaded_bytes_at_peak", member<&Report::offloaded_bytes_at_peak>, as_bytes},
    {"peak RSS", "peak_rss_bytes", member<&Report::peak_rss_bytes>, as_bytes},
    {"optimizer steps", "steps", member<&Report::steps>, as_count},
    {"whole time", "seconds", member<&Report::seconds>, human_seconds},
    {"time in Cinch", "seconds_in_cinch", member<&Report::seconds_in_cinch>, human_seconds},
    {"  a step", "seconds_in_cinch", in_cinch_per_step, human_seconds},
    {"rescues", "rescues", member<&Report::rescues>, as_count},
};

std::string whole(const Report& a, const Report& b) {
  Table table({"", ">A", ">B", ">B / A"});
  for (const Figure& figure : figures) {
    const bool in_a = has(a, figure.field);
    const bool in_b = has(b, figure.field);
    const double x = figure.of(a);
    const double y = figure.of(b);
    if (x == 0 && y == 0 && in_a && in_b) continue;
    table.add({figure.name, in_a ? figure.text(x) : "?", in_b ? figure.text(y) : "?",
               in_a && in_b ? relative(x, y) : "?"});
  }
  return table.render("  ");
}

/// Sums over the run of one (op, operand).
struct Sum {
  double raw = 0;
  double stored = 0;
  double seconds = 0;
  std::vector<std::string> codecs;
};
using Sums = std::map<std::pair<std::string, std::string>, Sum>;

Sums by_operand(const Report& report) {
  Sums sums;
  for (const Report::Op& op : report.ops) {
    Sum& sum = sums[{op.op, op.operand}];
    sum.raw += static_cast<double>(op.raw_bytes);
    sum.stored += static_cast<double>(op.stored_bytes);
    sum.seconds += op.encode_seconds + op.decode_seconds;
    if (std::ranges::find(sum.codecs, op.codec) == sum.codecs.end()) {
      sum.codecs.push_back(op.codec);
    }
  }
  return sums;
}

std::string ratio_text(const Sum& sum) {
  return sum.stored == 0 ? "-" : human_ratio(sum.raw / sum.stored);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string ops(const Report& a, const Report& b) {
  const Sums of_a = by_operand(a);
  const Sums of_b = by_operand(b);
  std::vector<Sums::key_type> keys;
  for (const auto& [key, sum] : of_a) keys.push_back(key);
  for (const auto& [key, sum] : of_b) {
    if (!of_a.contains(key)) keys.push_back(key);
  }
  const auto found = [](const Sums& sums, const Sums::key_type& key) {
    const auto it = sums.find(key);
    return it == sums.end() ? Sum{} : it->second;
  };
  std::ranges::stable_sort(keys, std::ranges::greater{}, [&](const Sums::key_type& key) {
    return std::max(found(of_a, key).raw, found(of_b, key).raw);
  });
  Table table({"operator", "operand", ">raw A", ">raw B", ">stored A", ">stored B", ">ratio A",
               ">ratio B", ">time A", ">time B", "codec A", "codec B"});
  for (const auto& key : keys) {
    const Sum x = found(of_a, key);
    const Sum y = found(of_b, key);
    const std::string codecs_a = joined(x.codecs);
    const std::string codecs_b = joined(y.codecs);
    table.add({key.first.empty() ? "(unknown)" : key.first, key.second, as_bytes(x.raw),
               as_bytes(y.raw), as_bytes(x.stored), as_bytes(y.stored), ratio_text(x),
               ratio_text(y), human_seconds(x.seconds), human_seconds(y.seconds), codecs_a,
               codecs_a == codecs_b ? "same" : codecs_b});
  }
  return table.render("  ");
}

std::string one(const char* letter, const Report& r, const std::string& name, const Style& style) {
  std::string text = std::string(letter) + ": " + printable(name + ": " + r.command) + '\n';
  text += "   policy " + printable(r.policy);
  if (!r.torch_version.empty()) text += ", torch " + printable(r.torch_version);
  text += '\n';
  if (!r.active) text += "   " + style.bad("NOT ACTIVE: " + r.inactive_reason) + '\n';
  return text;
}

std::string missing(const char* letter, const Report& r) {
  if (r.missing.empty()) return "";
  return std::string(letter) + " is of an older Cinch and does not say: " + joined(r.missing) +
         '\n';
}

}  // namespace

std::string render_comparison(const Report& a, const std::string& a_name, const Report& b,
                              const std::string& b_name, const Style& style) {
  std::string text = one("A", a, a_name, style) + one("B", b, b_name, style);
  text += whole(a, b);
  if (!a.ops.empty() || !b.ops.empty()) {
    text += style.bold("what was saved (sums over the run):") + '\n' + ops(a, b);
  }
  if (a.steps != b.steps) {
    text += "the runs took " + std::to_string(a.steps) + " and " + counted(b.steps, "step") +
            ": sums differ for that alone\n";
  }
  return text + missing("A", a) + missing("B", b);
}

}  // namespace cinch::cli
