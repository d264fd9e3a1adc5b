// SPDX-License-Identifier: Apache-2.0
#include "agent/telemetry/report.h"

#include <exception>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "files/write_file.h"

namespace cinch::telemetry {
namespace {

using Json = nlohmann::ordered_json;

/// Applies `visit(name, member)` to the members of a Report, or of a part of it, in the order in
/// which they are written. One list serves writing and reading.
template <typename Op, typename Visit>
void visit_op(Op& op, Visit&& visit) {
  visit("op", op.op);
  visit("operand", op.operand);
  visit("codec", op.codec);
  visit("count", op.count);
  visit("raw_bytes", op.raw_bytes);
  visit("stored_bytes", op.stored_bytes);
  visit("encode_seconds", op.encode_seconds);
  visit("decode_seconds", op.decode_seconds);
  visit("guard_checks", op.guard_checks);
  visit("guard_moves", op.guard_moves);
  visit("worst_relative_error", op.worst_relative_error);
  visit("worst_gradient_error", op.worst_gradient_error);
}

template <typename Entry, typename Visit>
void visit_entry(Entry& entry, Visit&& visit) {
  visit("module", entry.module);
  visit("relation", entry.relation);
  visit("op", entry.op);
  visit("operand", entry.operand);
  visit("codec", entry.codec);
  visit("type", entry.type);
  visit("shape", entry.shape);
  visit("place", entry.place);
  visit("count", entry.count);
  visit("raw_bytes", entry.raw_bytes);
  visit("stored_bytes", entry.stored_bytes);
  visit("bits_per_element", entry.bits_per_element);
  visit("encode_seconds", entry.encode_seconds);
  visit("decode_seconds", entry.decode_seconds);
  visit("guard_checks", entry.guard_checks);
  visit("worst_relative_error", entry.worst_relative_error);
  visit("worst_gradient_error", entry.worst_gradient_error);
}

template <typename Point, typename Visit>
void visit_point(Point& point, Visit&& visit) {
  visit("seconds", point.seconds);
  visit("step", point.step);
  visit("raw_bytes", point.raw_bytes);
  visit("stored_bytes", point.stored_bytes);
  visit("owned_bytes", point.owned_bytes);
  visit("least_raw_bytes", point.least_raw_bytes);
  visit("least_stored_bytes", point.least_stored_bytes);
  visit("rss_bytes", point.rss_bytes);
}

template <typename Event, typename Visit>
void visit_event(Event& event, Visit&& visit) {
  visit("seconds", event.seconds);
  visit("step", event.step);
  visit("kind", event.kind);
  visit("subject", event.subject);
  visit("detail", event.detail);
}

template <typename PassedThrough, typename Visit>
void visit_passed_through(PassedThrough& item, Visit&& visit) {
  visit("reason", item.reason);
  visit("bytes", item.bytes);
  visit("count", item.count);
}

template <typename Device, typename Visit>
void visit_device(Device& device, Visit&& visit) {
  visit("index", device.index);
  visit("allocator", device.allocator);
  visit("peak_allocated_bytes", device.peak_allocated_bytes);
  visit("peak_reserved_bytes", device.peak_reserved_bytes);
  visit("stash_bytes_at_most", device.stash_bytes_at_most);
  visit("in_flight_bytes_at_most", device.in_flight_bytes_at_most);
  visit("encodes_held_back", device.encodes_held_back);
  visit("unsized_bytes_at_most", device.unsized_bytes_at_most);
  visit("encodes_put_off", device.encodes_put_off);
}

template <typename DryRun, typename Visit>
void visit_dry_run(DryRun& run, Visit&& visit) {
  visit("policy", run.policy);
  visit("measured", run.measured);
  visit("raw_bytes", run.raw_bytes);
  visit("stored_bytes", run.stored_bytes);
  visit("device_bytes", run.device_bytes);
  visit("ratio", run.ratio);
  visit("encode_seconds", run.encode_seconds);
  visit("decode_seconds", run.decode_seconds);
  visit("worst_relative_error", run.worst_relative_error);
  visit("worst_gradient_error", run.worst_gradient_error);
  visit("message", run.message);
  visit("passed_through", run.passed_through);
  visit("ops", run.ops);
}

template <typename Appraisal, typename Visit>
void visit_appraisal(Appraisal& row, Visit&& visit) {
  visit("measured", row.measured);
  visit("steps", row.steps);
  visit("raw_bytes", row.raw_bytes);
  visit("stored_bytes", row.stored_bytes);
  visit("seconds", row.seconds);
  visit("seconds_in_cinch", row.seconds_in_cinch);
  visit("gradient_error", row.gradient_error);
  visit("gradient_noise", row.gradient_noise);
  visit("error_by_weight", row.error_by_weight);
  visit("noise_by_weight", row.noise_by_weight);
  visit("gradients", row.gradients);
  visit("untraced_gradients", row.untraced_gradients);
}

template <typename R, typename Visit>
void visit_report(R& r, Visit&& visit) {
  visit("version", r.version);
  visit("active", r.active);
  visit("inactive_reason", r.inactive_reason);
  visit("policy", r.policy);
  visit("pid", r.pid);
  visit("start_ticks", r.start_ticks);
  visit("pid_namespace", r.pid_namespace);
  visit("command", r.command);
  visit("torch_version", r.torch_version);
  visit("steps", r.steps);
  visit("optimizer", r.optimizer);
  visit("raw_bytes_at_peak", r.raw_bytes_at_peak);
  visit("stored_bytes_at_peak", r.stored_bytes_at_peak);
  visit("held_elsewhere_bytes_at_peak", r.held_elsewhere_bytes_at_peak);
  visit("ratio", r.ratio);
  visit("stash_bytes_at_exit", r.stash_bytes_at_exit);
  visit("peak_rss_bytes", r.peak_rss_bytes);
  visit("rss_bytes_at_start", r.rss_bytes_at_start);
  visit("seconds_in_cinch", r.seconds_in_cinch);
  visit("seconds_adapting", r.seconds_adapting);
  visit("rescues", r.rescues);
  visit("rescues_early", r.rescues_early);
  visit("rescues_harder", r.rescues_harder);
  visit("rescues_by_offload", r.rescues_by_offload);
  visit("rescued_bytes", r.rescued_bytes);
  visit("rescued_harder_bytes", r.rescued_harder_bytes);
  visit("rescued_by_offload_bytes", r.rescued_by_offload_bytes);
  visit("given_by_others_bytes", r.given_by_others_bytes);
  visit("offloads", r.offloads);
  visit("offloaded_bytes", r.offloaded_bytes);
  visit("fetches", r.fetches);
  visit("fetches_ahead", r.fetches_ahead);
  visit("size_waits", r.size_waits);
  visit("offloaded_bytes_at_peak", r.offloaded_bytes_at_peak);
  visit("peak_pinned_bytes", r.peak_pinned_bytes);
  visit("reserved_pinned_bytes", r.reserved_pinned_bytes);
  visit("devices", r.devices);
  visit("passed_through", r.passed_through);
  visit("ops", r.ops);
  visit("seconds", r.seconds);
  visit("memory", r.memory);
  visit("events", r.events);
  visit("events_dropped", r.events_dropped);
  visit("entries", r.entries);
  visit("dry_run", r.dry_run);
  visit("appraisal", r.appraisal);
  visit("plain_rss_bytes", r.plain_rss_bytes);
  visit("parameter_bytes", r.parameter_bytes);
}

/// Applies `visit(name, member)` to the members of an item of one of a report's lists.
template <typename Visit>
void visit_item(auto& item, Visit&& visit) {
  using Item = std::remove_cvref_t<decltype(item)>;
  if constexpr (std::is_same_v<Item, Report::Op>) visit_op(item, visit);
  if constexpr (std::is_same_v<Item, Report::PassedThrough>) visit_passed_through(item, visit);
  if constexpr (std::is_same_v<Item, Report::Device>) visit_device(item, visit);
  if constexpr (std::is_same_v<Item, Report::Entry>) visit_entry(item, visit);
  if constexpr (std::is_same_v<Item, Report::MemoryPoint>) visit_point(item, visit);
  if constexpr (std::is_same_v<Item, Report::Event>) visit_event(item, visit);
  if constexpr (std::is_same_v<Item, Report::DryRun>) visit_dry_run(item, visit);
  if constexpr (std::is_same_v<Item, Report::Appraisal>) visit_appraisal(item, visit);
}

/// Writes members into a JSON object.
struct JsonWriter {
  Json& json;

  template <typename T>
  void operator()(const char* name, const T& member) const {
    json[name] = member;
  }
  template <typename Item>
  void operator()(const char* name, const std::vector<Item>& items) const {
    Json& list = json[name] = Json::array();
    for (const auto& item : items) visit_item(item, JsonWriter{list.emplace_back(Json::object())});
  }
};

/// Reads members from a JSON object. A missing field leaves its member unchanged, so that added
/// fields need no new version.
struct Reader {
  const Json& json;
  std::vector<std::string>* missing = nullptr;  ///< gets the names not found; may be null

  template <typename T>
  void operator()(const char* name, T& member) const {
    if (const Json* found = find(name)) member = found->get<T>();
  }
  template <typename Item>
  void operator()(const char* name, std::vector<Item>& items) const {
    const Json* found = find(name);
    if (found == nullptr) return;
    for (const Json& item : *found) visit_item(items.emplace_back(), Reader{item});
  }

 private:
  const Json* find(const char* name) const {
    const auto it = json.find(name);
    if (it != json.end() && !it->is_null()) return &*it;
    if (missing != nullptr) missing->emplace_back(name);
    return nullptr;
  }
};

}  // namespace

std::string to_json(const Report& report) {
  Json json = Json::object();
  visit_report(report, JsonWriter{json});
  // A command line may hold any bytes.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::optional<Report> from_json(std::string_view text, std::string& error) {
  try {
    const Json json = Json::parse(text);
    if (!json.is_object() || !json.contains("version") || !json.at("version").is_number_integer()) {
      error = "found JSON without a \"version\", expected a report of Cinch";
      return std::nullopt;
    }
    if (const int version = json.at("version"); version > Report::current_version || version < 1) {
      error = "found report version " + std::to_string(version) + ", expected " +
              std::to_string(Report::current_version) + ": another version of Cinch wrote it";
      return std::nullopt;
    }
    Report report;
    visit_report(report, Reader{json, &report.missing});
    return report;
  } catch (const Json::parse_error& e) {
    error = "found no JSON at byte " + std::to_string(e.byte) + ", expected a report of Cinch";
  } catch (const std::exception& e) {
    error = std::string("found a field of another type than a report's: ") + e.what();
  }
  return std::nullopt;
}

std::string write_report(const Report& report, const std::string& path) {
  try {
    return files::write_file(to_json(report), path);
  } catch (const std::exception& e) {
    return "cannot write " + path + ": " + e.what();
  }
}

}  // namespace cinch::telemetry
