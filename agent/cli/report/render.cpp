// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/report/render.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cinch::cli {
namespace {

using telemetry::Report;

constexpr std::size_t everything = std::numeric_limits<std::size_t>::max();
constexpr std::size_t summary_ops = 6;
constexpr std::size_t summary_reasons = 4;
/// Below this ratio, what was not compressed is printed first, and marked as bad.
constexpr double low_ratio = 2;
/// A reason for so much of what was saved gets a hint.
constexpr double large_share = 0.25;
constexpr const char* explanation = "docs/troubleshooting.md#not-compressed-and-why";

std::string headline(const Report& r) {
  const std::string raw = human_bytes(r.raw_bytes_at_peak);
  const std::string policy = " (policy " + r.policy + ")";
  if (r.raw_bytes_at_peak == 0) return "no activation memory was taken" + policy;
  if (r.stored_bytes_at_peak == 0) {
    return "no activation memory left: " + raw + " needed no byte at the peak" + policy;
  }
  return human_ratio(r.ratio) + " less activation memory: " + raw + " kept as " +
         human_bytes(r.stored_bytes_at_peak) + " at the peak" + policy;
}

std::string cost_line(const Report& r) {
  return "peak RSS " + human_bytes(r.peak_rss_bytes) + ", " + counted(r.steps, "optimizer step") +
         ", " + human_seconds(r.seconds_in_cinch) + " in Cinch";
}

std::string passed_through(const Report& r, std::size_t most) {
  auto items = r.passed_through;
  std::ranges::stable_sort(items, std::ranges::greater{}, &Report::PassedThrough::bytes);
  Table table({"reason", ">bytes", ">count"});
  for (std::size_t i = 0; i < std::min(most, items.size()); ++i) {
    table.add({items[i].reason, human_bytes(items[i].bytes), std::to_string(items[i].count)});
  }
  std::string text = table.render("  ");
  if (items.size() > most) text += "  and " + counted(items.size() - most, "more reason") + '\n';
  return text;
}

struct Hint {
  std::string_view reason;  ///< as the report has it
  std::string_view remedy;
};

/// Reasons that a setting changes. tests/agent/test_reasons.py checks that these reasons exist.
constexpr Hint hints[] = {
    {"smaller than min_bytes", "a smaller \"min_bytes\" in the policy"},
    {"no rule chooses a codec", "\"rules\" or \"others\" in the policy"},
    {"a rule keeps it", "\"rules\" in the policy"},
    {"saved by a compiled region", "\"compiled\" in the policy"},
    {"saved by a custom autograd.Function", "\"functions\" or \"rules\" in the policy"},
    {"no codecs for this device in this installation", "cinch doctor"},
    {"while Cinch was paused", "cinch ctl PID --resume"},
};

/// All bytes that were saved for backward, sums over the run. Those that were kept after a look at
/// them have a row "kept" among the operators besides their reason, and count once.
double saved_bytes(const Report& r) {
  double bytes = 0;
  for (const Report::Op& op : r.ops) {
    if (op.codec != "kept") bytes += static_cast<double>(op.raw_bytes);
  }
  for (const auto& item : r.passed_through) bytes += static_cast<double>(item.bytes);
  return bytes;
}

/// One line about the largest reason where it accounts for at least `large_share` of what was
/// saved, else "". Leaves out what backward reads first, which nobody needs compressed.
std::string hint(const Report& r) {
  const Report::PassedThrough* largest = nullptr;
  for (const Report::PassedThrough& item : r.passed_through) {
    if (item.reason.starts_with("read by backward")) continue;
    if (largest == nullptr || item.bytes > largest->bytes) largest = &item;
  }
  if (largest == nullptr || largest->bytes == 0) return "";
  const double share = static_cast<double>(largest->bytes) / saved_bytes(r);
  if (share < large_share) return "";
  const auto* const found = std::ranges::find(hints, largest->reason, &Hint::reason);
  const std::string remedy =
      found == std::end(hints) ? "" : "try " + std::string(found->remedy) + ", or ";
  return std::to_string(std::lround(share * 100)) +
         " % of what was saved: " + printable(largest->reason) + "; " + remedy + "see " +
         explanation + '\n';
}

/// Shortens an operator's name to leave room for numbers; the full report has the whole name.
std::string short_name(std::string name) {
  constexpr std::size_t longest = 32;
  if (name.starts_with("aten::")) name.erase(0, 6);
  if (name.size() > longest) name = name.substr(0, longest - 3) + "...";
  return name;
}

std::string ops(const Report& r, bool full) {
  const std::size_t most = full ? everything : summary_ops;
  auto items = r.ops;
  std::ranges::stable_sort(items, std::ranges::greater{}, &Report::Op::raw_bytes);
  std::vector<std::string> header{"operator", "operand", "codec", ">count",
                                  ">raw",     ">stored", ">ratio"};
  if (full) {
    header.insert(header.end(), {">encode", ">decode", ">error", ">gradient error", ">moved"});
  }
  Table table(header);
  for (std::size_t i = 0; i < std::min(most, items.size()); ++i) {
    const Report::Op& op = items[i];
    std::vector<std::string> row{op.op.empty() ? "(unknown)"
                                 : full        ? op.op
                                               : short_name(op.op),
                                 op.operand,
                                 op.codec,
                                 std::to_string(op.count),
                                 human_bytes(op.raw_bytes),
                                 human_bytes(op.stored_bytes),
                                 human_ratio(op.raw_bytes, op.stored_bytes)};
    if (full) {
      row.push_back(human_seconds(op.encode_seconds));
      row.push_back(human_seconds(op.decode_seconds));
      row.push_back(op.guard_checks == 0 ? "-" : human_error(op.worst_relative_error));
      row.push_back(op.guard_checks == 0 ? "-" : human_error(op.worst_gradient_error));
      row.push_back(op.guard_moves == 0 ? "-" : std::to_string(op.guard_moves));
    }
    table.add(std::move(row));
  }
  std::string text = table.render("  ");
  if (items.size() > most) text += "  and " + counted(items.size() - most, "more row") + '\n';
  return text;
}

/// The text that summary and full report share, without the lines' prefix.
std::string body(const Report& r, const Style& style, bool full) {
  if (!r.active) return style.bad("NOT ACTIVE: " + r.inactive_reason) + '\n';
  std::string text = style.bold(headline(r)) + '\n' + cost_line(r) + '\n';
  for (const Report::Device& device : r.devices) {
    text += "CUDA device " + std::to_string(device.index) + ": peak " +
            human_bytes(device.peak_allocated_bytes) + " allocated, " +
            human_bytes(device.peak_reserved_bytes) + " reserved by " +
            printable(device.allocator) + "'s allocator; the stash held at most " +
            human_bytes(device.stash_bytes_at_most) + "\n";
  }
  if (r.held_elsewhere_bytes_at_peak > 0) {
    text += human_bytes(r.held_elsewhere_bytes_at_peak) +
            " more were saved for backward, but the program itself holds them\n";
  }
  if (r.rescues > 0) {
    text += "memory ran out " + std::to_string(r.rescues) +
            " times: " + human_bytes(r.rescued_bytes) + " were freed by compressing earlier" +
            (r.rescued_harder_bytes == 0
                 ? ""
                 : ", " + human_bytes(r.rescued_harder_bytes) + " by compressing harder") +
            (r.rescued_by_offload_bytes == 0
                 ? "\n"
                 : ", " + human_bytes(r.rescued_by_offload_bytes) + " by moving to the host\n");
  }
  if (r.given_by_others_bytes > 0) {
    text += "memory ran out and other processes gave back " + human_bytes(r.given_by_others_bytes) +
            "\n";
  }
  if (r.offloads > 0) {
    text += human_bytes(r.offloaded_bytes_at_peak) +
            " more were held in the host's memory at the peak, instead of a GPU's (" +
            human_bytes(r.reserved_pinned_bytes) + " of it page-locked)\n";
  }
  std::string passed;
  const bool low = r.ratio < low_ratio;
  if (!r.passed_through.empty()) {
    passed = (low ? style.bad("NOT COMPRESSED, and why (sums over the run):")
                  : std::string("not compressed, and why (sums over the run):")) +
             '\n' + passed_through(r, full ? everything : summary_reasons) + hint(r);
  }
  if (low) text += passed;
  if (!r.ops.empty()) {
    text += "what was saved (sums over the run):\n" + ops(r, full);
  }
  if (!low) text += passed;
  if (r.stash_bytes_at_exit > 0) {
    text += human_bytes(r.stash_bytes_at_exit) + " were still waiting for a backward at exit\n";
  }
  return text;
}

}  // namespace

std::string render_summary(const Report& report, const Style& style) {
  const std::string text = body(report, style, false);
  std::string prefixed;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    prefixed += "cinch: " + text.substr(begin, end + 1 - begin);
    begin = end + 1;
  }
  return prefixed;
}

std::string render_report(const Report& report, const Style& style) {
  std::string text =
      "process " + std::to_string(report.pid) + ": " + printable(report.command) + '\n';
  if (!report.torch_version.empty()) text += "torch " + printable(report.torch_version) + '\n';
  return text + body(report, style, true);
}

}  // namespace cinch::cli
