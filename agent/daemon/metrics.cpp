// SPDX-License-Identifier: Apache-2.0
#include "agent/daemon/metrics.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>
#include <utility>

#include "agent/cli/watch/facts.h"

namespace cinch::daemon {
namespace {

using telemetry::Run;
using telemetry::RunState;

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Escapes backslash and quote; replaces control characters and invalid UTF-8 by '?'.
std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = byte < 0x80             ? 1
                               : (byte & 0xE0) == 0xC0 ? 2
                               : (byte & 0xF0) == 0xE0 ? 3
                               : (byte & 0xF8) == 0xF0 ? 4
                                                       : 0;
    bool whole = length != 0 && i + length <= text.size();
    for (std::size_t k = 1; whole && k < length; ++k) whole = (text[i + k] & 0xC0) == 0x80;
    if (!whole || byte < 0x20 || byte == 0x7F) {
      out += '?';
      ++i;
      continue;
    }
    if (byte == '\\' || byte == '"') out += '\\';
    out += text.substr(i, length);
    i += length;
  }
  return out;
}

class Page {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += "# HELP " + name_ + ' ' + std::string(help) + "\n# TYPE " + name_ + ' ' +
             std::string(type) + '\n';
  }
  void sample(const Labels& labels, double value) {
    text_ += name_;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      text_ += (i == 0 ? "{" : ",") + std::string(labels[i].first) + "=\"" +
               escaped(labels[i].second) + '"';
    }
    if (!labels.empty()) text_ += '}';
    char number[40];
    std::snprintf(number, sizeof number, " %.17g\n", value);
    text_ += number;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

struct Source {
  const Run* run;
  Labels labels;
};

Labels with(Labels labels, std::string_view name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

double as_seconds(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

using Live = telemetry::LiveFigures;

template <std::uint64_t Live::*member>
double figure(const Run& run) {
  return static_cast<double>((*run.live).*member);
}

template <std::uint64_t Live::*member>
double duration(const Run& run) {
  return as_seconds((*run.live).*member);
}

struct LiveFamily {
  std::string_view name;
  std::string_view type;
  std::string_view help;
  double (*value)(const Run& run);  ///< @pre run.live
};

constexpr LiveFamily live_families[] = {
    {"cinch_steps_total", "counter", "Optimizer steps.", figure<&Live::steps>},
    {"cinch_step_duration_seconds", "gauge", "Wall time of the last step.",
     duration<&Live::step_nanoseconds>},
    {"cinch_silent_seconds", "gauge", "Time since the last backward began.", cli::silence_of},
    {"cinch_activations_raw_bytes", "gauge",
     "Bytes that autograd would hold for backward, at the last step boundary.", figure<&Live::raw>},
    {"cinch_activations_stored_bytes", "gauge",
     "Bytes that are held for them, at the last step boundary.", figure<&Live::stored>},
    {"cinch_activations_raw_peak_bytes", "gauge", "The same when there was most.",
     figure<&Live::raw_at_peak>},
    {"cinch_activations_stored_peak_bytes", "gauge", "What was held for them at that moment.",
     figure<&Live::stored_at_peak>},
    {"cinch_compression_ratio", "gauge", "Raw bytes / stored bytes at the peak.", cli::ratio_of},
    {"cinch_held_elsewhere_peak_bytes", "gauge",
     "Bytes saved for backward that the program itself holds, at the peak.",
     figure<&Live::held_elsewhere_at_peak>},
    {"cinch_offloaded_bytes", "gauge", "Bytes held in host memory for a device.",
     figure<&Live::offloaded>},
    {"cinch_pinned_bytes", "gauge", "Page-locked host memory in use for that.",
     figure<&Live::pinned>},
    {"cinch_pinned_reserved_bytes", "gauge", "Page-locked host memory taken for that.",
     figure<&Live::pinned_reserved>},
    {"cinch_busy_seconds_total", "counter", "Wall time that the program spent in Cinch.",
     duration<&Live::nanoseconds_in_cinch>},
    {"cinch_guard_checks_total", "counter",
     "Tensors that the guard compared with their exact values.", figure<&Live::guard_checks>},
    {"cinch_guard_moves_total", "counter",
     "Classes of tensors that the guard had held more precisely.", figure<&Live::guard_moves>},
    {"cinch_rescues_total", "counter", "Times that memory had run out and the stash freed some.",
     figure<&Live::rescues>},
    {"cinch_rescued_bytes_total", "counter", "Bytes that were freed then by compressing.",
     figure<&Live::rescued>},
    {"cinch_rescued_by_offload_bytes_total", "counter",
     "Bytes that were freed then by moving to host memory.", figure<&Live::rescued_by_offload>},
    {"cinch_given_by_others_bytes_total", "counter",
     "Bytes that other processes on the device gave back then.", figure<&Live::given_by_others>},
    {"cinch_policy_decisions_total", "counter",
     "Layers whose treatment an adaptive policy changed.", figure<&Live::decisions>},
    {"cinch_resident_memory_bytes", "gauge", "Resident memory of the process.",
     [](const Run& run) { return static_cast<double>(run.rss); }},
    {"cinch_resident_memory_peak_bytes", "gauge", "The most that it has been.",
     [](const Run& run) { return static_cast<double>(run.peak_rss); }},
};

void live_figures(Page& page, const std::vector<Source>& sources) {
  for (const LiveFamily& family : live_families) {
    page.family(family.name, family.type, family.help);
    for (const Source& source : sources) {
      if (source.run->live) page.sample(source.labels, family.value(*source.run));
    }
  }
}

void device_figures(Page& page, const std::vector<Source>& sources) {
  using Device = telemetry::DeviceFigures;
  const struct {
    std::string_view name;
    std::string_view help;
    std::uint64_t Device::*figure;
  } families[] = {
      {"cinch_allocator_allocated_bytes", "Bytes in use of Cinch's allocator.", &Device::allocated},
      {"cinch_allocator_allocated_peak_bytes", "The most that they have been.",
       &Device::peak_allocated},
      {"cinch_allocator_reserved_bytes", "Memory that Cinch's allocator holds.", &Device::reserved},
      {"cinch_allocator_reserved_peak_bytes", "The most that it has been.", &Device::peak_reserved},
  };
  for (const auto& family : families) {
    page.family(family.name, "gauge", family.help);
    for (const Source& source : sources) {
      for (const Device& device : source.run->devices) {
        page.sample(with(source.labels, "device", cli::device_name(device)),
                    static_cast<double>(device.*family.figure));
      }
    }
  }
}

void codec_figures(Page& page, const std::vector<Source>& sources) {
  using Row = telemetry::RowFigures;
  const struct {
    std::string_view name;
    std::string_view help;
    std::uint64_t Row::*figure;
    double unit;
  } families[] = {
      {"cinch_codec_storages_total", "Storages held so.", &Row::count, 1},
      {"cinch_codec_raw_bytes_total", "Their bytes.", &Row::raw, 1},
      {"cinch_codec_stored_bytes_total", "Bytes that were held for them.", &Row::stored, 1},
      {"cinch_codec_encode_seconds_total", "Time spent on encoding.", &Row::encode_nanoseconds,
       1e-9},
      {"cinch_codec_decode_seconds_total", "Time spent on decoding.", &Row::decode_nanoseconds,
       1e-9},
  };
  for (const auto& family : families) {
    page.family(family.name, "counter", family.help);
    for (const Source& source : sources) {
      for (const auto& row : cli::by_codec(*source.run)) {
        page.sample(with(source.labels, "codec", row.codec),
                    static_cast<double>(row.figures.*family.figure) * family.unit);
      }
    }
  }
}

}  // namespace

std::vector<int> Slots::assign(const std::vector<Run>& runs) {
  std::erase_if(held_, [&runs](const Held& held) {
    return std::ranges::find(runs, held.process, &Run::process) == runs.end();
  });
  std::vector<int> slots;
  for (const Run& run : runs) {
    auto held = std::ranges::find(held_, run.process, &Held::process);
    if (held == held_.end()) {
      const std::string alike = job_label(run) + '\n' + std::to_string(run.identity.rank);
      std::set<int> taken;
      for (const Held& other : held_) {
        if (other.alike == alike) taken.insert(other.slot);
      }
      int slot = 0;
      while (taken.contains(slot)) ++slot;
      held = held_.insert(held_.end(), Held{run.process, alike, slot});
    }
    slots.push_back(held->slot);
  }
  return slots;
}

std::string job_label(const Run& run) {
  const std::string job = telemetry::job_of(run);
  if (job != std::to_string(run.process.pid)) return job;
  // "python -u folder/train.py --lr 1": the first word after the program that is no option.
  std::istringstream words(run.identity.command.str());
  std::string program;
  words >> program;
  std::string chosen = program;
  for (std::string word; words >> word;) {
    if (word.starts_with('-')) {
      if (word == "-c") break;
      continue;
    }
    chosen = word;
    break;
  }
  return chosen.substr(chosen.rfind('/') + 1).substr(0, 64);
}

std::string prometheus_text(const std::vector<Run>& runs, const std::vector<int>& slots) {
  Page page;
  std::vector<Source> sources;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].state != RunState::running && runs[i].state != RunState::stale) continue;
    const std::int64_t rank = runs[i].identity.rank;
    sources.push_back({&runs[i],
                       {{"job", job_label(runs[i])},
                        {"rank", rank < 0 ? "" : std::to_string(rank)},
                        {"slot", std::to_string(slots[i])}}});
  }
  page.family("cinch_runs", "gauge", "Processes that train under Cinch.");
  page.sample({}, static_cast<double>(sources.size()));
  page.family("cinch_run_info", "gauge", "What a process runs with; always 1.");
  for (const Source& source : sources) {
    page.sample(with(with(source.labels, "policy", source.run->identity.policy.str()), "torch",
                     source.run->identity.torch.str()),
                1);
  }
  live_figures(page, sources);
  device_figures(page, sources);
  codec_figures(page, sources);
  return page.take();
}

}  // namespace cinch::daemon
