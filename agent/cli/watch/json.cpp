// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/watch/json.h"

#include <nlohmann/json.hpp>

#include "agent/cli/watch/facts.h"

namespace cinch::cli {
namespace {

using Json = nlohmann::ordered_json;
using telemetry::Run;

double seconds(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-9;
}

Json or_null(std::int64_t number) {
  return number < 0 ? Json() : Json(number);
}

std::string_view name_of(telemetry::EventKind kind) {
  switch (kind) {
    case telemetry::EventKind::guard:
      return "guard";
    case telemetry::EventKind::decision:
      return "decision";
    case telemetry::EventKind::rescue:
      return "rescue";
    case telemetry::EventKind::message:
      break;
  }
  return "message";
}

Json live_json(const Run& run) {
  if (!run.live) return {};
  const auto& l = *run.live;
  const double share = share_in_cinch(run);
  return {{"silent_seconds", silence_of(run)},
          {"steps", l.steps},
          {"boundaries", l.boundaries},
          {"step_seconds", seconds(l.step_nanoseconds)},
          {"raw_bytes", l.raw},
          {"stored_bytes", l.stored},
          {"raw_bytes_at_peak", l.raw_at_peak},
          {"stored_bytes_at_peak", l.stored_at_peak},
          {"held_elsewhere_bytes_at_peak", l.held_elsewhere_at_peak},
          {"ratio", ratio_of(run)},
          {"offloaded_bytes", l.offloaded},
          {"pinned_bytes", l.pinned},
          {"reserved_pinned_bytes", l.pinned_reserved},
          {"seconds_in_cinch", seconds(l.nanoseconds_in_cinch)},
          {"share_in_cinch", share < 0 ? Json() : Json(share)},
          {"guard_checks", l.guard_checks},
          {"guard_moves", l.guard_moves},
          {"rescues", l.rescues},
          {"rescued_bytes", l.rescued},
          {"rescued_by_offload_bytes", l.rescued_by_offload},
          {"given_by_others_bytes", l.given_by_others},
          {"decisions", l.decisions}};
}

Json devices_json(const Run& run) {
  Json devices = Json::array();
  for (const auto& d : run.devices) {
    devices.push_back({{"device", device_name(d)},
                       {"allocated_bytes", d.allocated},
                       {"peak_allocated_bytes", d.peak_allocated},
                       {"reserved_bytes", d.reserved},
                       {"peak_reserved_bytes", d.peak_reserved},
                       {"fragmentation", fragmentation_of(d)}});
  }
  return devices;
}

Json ops_json(const Run& run) {
  Json ops = Json::array();
  for (const auto& row : by_size(run)) {
    const auto& f = row.figures;
    ops.push_back({{"op", row.op},
                   {"operand", row.operand},
                   {"codec", row.codec},
                   {"count", f.count},
                   {"raw_bytes", f.raw},
                   {"stored_bytes", f.stored},
                   {"encode_seconds", seconds(f.encode_nanoseconds)},
                   {"decode_seconds", seconds(f.decode_nanoseconds)},
                   {"guard_checks", f.guard_checks},
                   {"guard_moves", f.guard_moves},
                   {"worst_relative_error", f.worst_relative_error},
                   {"worst_gradient_error", f.worst_gradient_error}});
  }
  return ops;
}

double seconds_ago(const Run& run, std::uint64_t time) {
  return time < run.read_at ? seconds(run.read_at - time) : 0.0;
}

Json history_json(const Run& run) {
  Json history = Json::array();
  for (const auto& p : run.history) {
    history.push_back({{"step", p.step},
                       {"seconds_ago", seconds_ago(run, p.time)},
                       {"step_seconds", seconds(p.step_nanoseconds)},
                       {"raw_bytes", p.raw},
                       {"stored_bytes", p.stored},
                       {"seconds_in_cinch", seconds(p.nanoseconds_in_cinch)},
                       {"allocated_bytes", p.allocated},
                       {"reserved_bytes", p.reserved}});
  }
  return history;
}

Json events_json(const Run& run) {
  Json events = Json::array();
  for (const auto& e : run.events) {
    events.push_back({{"step", e.step},
                      {"seconds_ago", seconds_ago(run, e.time)},
                      {"kind", name_of(e.kind)},
                      {"text", e.text.str()}});
  }
  return events;
}

Json run_json(const Run& run) {
  const auto& who = run.identity;
  return {{"pid", run.process.pid},
          {"start_ticks", run.process.start_ticks},
          {"state", telemetry::word(run.state)},
          {"note", run.note},
          {"job", telemetry::job_of(run)},
          {"rank", or_null(who.rank)},
          {"local_rank", or_null(who.local_rank)},
          {"world_size", or_null(who.world)},
          {"policy", who.policy.str()},
          {"torch", who.torch.str()},
          {"command", who.command.str()},
          {"started", seconds(who.created_realtime)},
          {"rss_bytes", run.rss},
          {"peak_rss_bytes", run.peak_rss},
          {"live", live_json(run)},
          {"devices", devices_json(run)},
          {"ops", ops_json(run)},
          {"history", history_json(run)},
          {"events", events_json(run)},
          {"dropped",
           {{"ops", run.rows_dropped},
            {"history", run.history_dropped},
            {"events", run.events_dropped},
            {"torn", run.torn}}}};
}

}  // namespace

std::string runs_json(std::span<const Run> runs) {
  Json json = {{"version", watch_json_version}, {"runs", Json::array()}};
  for (const Run& run : runs) json["runs"].push_back(run_json(run));
  // A command line need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cinch::cli
