// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/device_holding.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include <c10/core/DeviceGuard.h>

#include "hooks/torch/process/fork.h"
#include "hooks/torch/process/parallel.h"
#include "hooks/torch/program/below_program.h"
#include "hooks/torch/stash/device/outcome.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/on_device/on_device.h"
#include "hooks/torch/stash/recipes/device_arithmetic.h"
#include "hooks/torch/stash/recipes/device_comparison.h"
#include "policy/adapting/plane_ranges.h"

namespace cinch::hooks {
namespace {

// Makes the constants of a recipe usable in the further work of `reader`, the current stream.
void lend_constants(Recipe& recipe, const c10::Stream& reader) {
  if (*recipe.made_on == reader) return;
  // What a graph reads stays as long as the entry does.
  if (is_capturing(reader)) return StreamWork{*recipe.made_on, nullptr}.wait_on_host();
  StreamWork{*recipe.made_on, nullptr}.block(reader);
  recipe.for_each(Recipe::Tensors::all, [&](at::Tensor& each) {
    if (each.is_cuda()) record_use(each.storage().data_ptr(), reader);
  });
}

}  // namespace

DeviceHolding::DeviceHolding(bool uses_side_stream, EntryLists& lists, Statistics& statistics,
                             const PolicyInForce& policy, EntryKeeper& keeper,
                             Derivation& derivation, GuardLooks& looks, ReadAhead& read_ahead)
    : parts_{lists, queues_, statistics, policy, keeper, looks, read_ahead},
      derivation_(derivation),
      encoder_(uses_side_stream, policy),
      unsized_(parts_),
      offloader_(parts_),
      rescue_(parts_, encoder_, reserve_) {
  register_fork_lock(reserve_.mutex());
}

// Tries the first candidate only: the host learns how it did when it is too late for another.
std::string_view DeviceHolding::encode(Entry& entry, c10::Storage& freed,
                                       codecs::ParallelFor parallel_for) {
  // The encoding would only be recorded in another thread's graph, and not run.
  if (is_capturing(entry.device->saved_on)) return "while a CUDA graph is captured";
  const Plan& plan = entry.plan();
  if (plan.action == policy::Decision::Action::drop || entry.recipe != nullptr) {
    // The storage may be freed without being encoded, and its memory another stream's.
    record_use(entry.raw.data_ptr(), entry.device->saved_on);
  }
  if (plan.action == policy::Decision::Action::drop) return drop(entry, freed), "";
  if (derivation_.let_go(entry, freed, parallel_for)) return {};
  if (plan.candidates.empty()) return reason_to_keep(plan);
  const Plan::Candidate& candidate = plan.candidates.front();
  const Stopwatch watch;
  // Not always, since the host has to wait for the ranges.
  measure_planes(candidate, entry, /*always=*/false);
  if (!encoder_.encode(entry, candidate, parts_.policy.settings().seed)) return no_memory;
  const codecs::Description what = described(candidate, entry);
  entry.encoded_bytes =
      what.plane_bits.empty() ? candidate.bound : candidate.codec->encoded_bytes(what);
  entry.state = Entry::State::encoded;
  freed = std::move(entry.raw);
  if (entry.device->outcome != nullptr) entry.device->source = freed;
  if (candidate.approximates) parts_.looks.keep_sample(entry, freed);
  count(entry, *candidate.totals, entry.encoded_bytes, watch.nanoseconds());
  return {};
}

c10::Storage DeviceHolding::decode(Entry& entry, codecs::Reads reads) {
  if (needs_fetch(entry, reads)) parts_.statistics.fetched(/*ahead=*/false);
  return decode_on_device(entry, reads, current_stream(entry.device->saved_on.device()));
}

c10::Storage DeviceHolding::decode_ahead(Entry& entry, codecs::Reads reads) {
  if (needs_fetch(entry, reads)) parts_.statistics.fetched(/*ahead=*/true);
  return decode_on_device(entry, reads, own_stream(Own::side, entry.device->saved_on.device()));
}

void DeviceHolding::hand_over(Entry& entry, const c10::Storage& decoded, codecs::Reads reads) {
  hooks::hand_over(entry, decoded, reads, current_stream(decoded.device()));
}

c10::Storage DeviceHolding::without_values(const Entry& entry) {
  return storage_of(c10::DataPtr(nullptr, entry.device->saved_on.device()), entry.raw_bytes);
}

// A graph may be replayed for as long as the entry lives. So it shares no decoded storage with work
// outside of it, and the bytes that it reads stay where they are.
c10::Storage DeviceHolding::restore_in_capture(Entry& entry, const Use& use) {
  if (!is_capturing(entry.device->saved_on.device())) return {};
  const bool follows = entry.recipe != nullptr && derivation_.keep_sources(entry) &&
                       derivation_.has_to_follow(entry);
  {
    const EntryWork work(entry);
    {
      // `captured` shares a byte with `state`, which is also read under the stash's lock.
      const std::lock_guard stash_lock(parts_.lists.mutex);
      entry.captured = true;
    }
    const bool computes =
        follows || (entry.state == Entry::State::derived && use.reads == codecs::Reads::values);
    if (!computes) return entry.is_raw() ? entry.raw : decode_in_capture(entry, use.reads);
  }
  return derivation_.compute(
      entry, [this](Entry& source, const Use& as) { return restore_in_capture(source, as); },
      Bias::subtracted);
}

bool DeviceHolding::encode_mask(Entry& entry, codecs::ParallelFor /*parallel_for*/) {
  const std::optional<Plan::Candidate>& mask = entry.plan().mask;
  if (!mask) return true;
  if (!encoder_.encode(entry, *mask, parts_.policy.settings().seed)) return false;
  entry.encoded_bytes = mask->bound;
  return true;
}

void DeviceHolding::lend(const Entry& entry, const c10::Storage& storage) {
  const c10::Stream reader = current_stream(storage.device());
  std::optional<c10::Stream> valid_in;
  {
    const std::lock_guard lock(parts_.lists.mutex);
    valid_in = entry.device->saved_on;
  }
  make_usable(*valid_in, storage.data_ptr(), reader);
}

SourceErrors DeviceHolding::errors_of(Entry& entry) {
  const EntryWork work(entry);
  SourceErrors errors;
  if (even_errors(entry)) errors.on_device = &entry;
  return errors;
}

c10::Storage DeviceHolding::compute(Entry& entry, std::span<const void* const> values,
                                    std::span<const SourceErrors> errors, at::Tensor& other) {
  const c10::Device device = entry.recipe->device;
  const c10::OptionalDeviceGuard on_device(device);
  const c10::Stream stream = current_stream(device);
  lend_constants(*entry.recipe, stream);
  const bool has_mask = entry.own_plan != nullptr && entry.plan().mask;
  const std::byte* const mask = has_mask ? lent_mask(entry, stream) : nullptr;
  const DeviceArithmetic arithmetic(device);
  c10::DataPtr data = arithmetic.allocate(entry.raw_bytes);
  entry.recipe->compute(arithmetic, values, mask, data.get(), errors, &other);
  // Sources are freed from now on: the stand-in of the stream follows its work (record_use()).
  if (!is_capturing(stream)) static_cast<void>(lasting(stream));
  return storage_of(std::move(data), entry.raw_bytes, c10::GetAllocator(device.type()));
}

void DeviceHolding::computed(Entry& entry) {
  const c10::Stream stream = lasting(current_stream(entry.recipe->device));
  entry.device->decoding[static_cast<std::size_t>(codecs::Reads::values)] =
      work_beside(stream, entry.device->saved_on);
}

Proofs::Found DeviceHolding::compare(Recipe& recipe, std::span<const void* const> values,
                                     const at::Tensor& actual, bool near_serves) {
  const c10::OptionalDeviceGuard on_device(recipe.device);
  const BelowProgram guard;
  const DeviceArithmetic arithmetic(recipe.device);
  const c10::DataPtr computed = arithmetic.allocate(recipe.bytes());
  recipe.compute(arithmetic, values, nullptr, computed.get());
  const Layout flat = contiguous({recipe.elements});
  auto outcome =
      DeviceComparison::enqueue(recipe, arithmetic.blob(computed.get(), flat, recipe.type),
                                arithmetic.blob(actual.const_data_ptr(), flat, recipe.type),
                                near_serves, current_stream(recipe.device));
  if (outcome == nullptr) return {Proofs::Comparison::not_made};
  return {Proofs::Comparison::awaited, std::move(outcome)};
}

void DeviceHolding::own_constants(Recipe& recipe) {
  const c10::OptionalDeviceGuard on_device(recipe.device);
  const BelowProgram guard;
  recipe.for_each(Recipe::Tensors::constants, [](at::Tensor& constant) {
    const bool is_index = constant.scalar_type() == at::kLong && constant.dim() == 1;
    const at::ScalarType type = is_index ? at::kInt : constant.scalar_type();
    constant =
        constant.to(type, /*non_blocking=*/true, /*copy=*/true, at::MemoryFormat::Contiguous);
  });
  recipe.made_on = lasting(current_stream(recipe.device));
}

// The host waits for both copies. pre: the current stream waits for `decoded`
std::optional<ValueError> DeviceHolding::error_of(Entry& entry, const c10::Storage& decoded) {
  const auto exact = host_copy(entry.sample->exact.data(), entry.raw_bytes, entry.device->saved_on);
  const auto restored =
      host_copy(decoded.data(), entry.raw_bytes, current_stream(decoded.device()));
  if (exact == nullptr || restored == nullptr) return std::nullopt;
  const codecs::ElementType type = entry.plan().candidates[entry.candidate].what.type;
  return value_error(exact.get(), restored.get(), type, entry.raw_bytes);
}

std::vector<float> DeviceHolding::plane_ranges(const Plan::Candidate& candidate,
                                               const Entry& entry) {
  const auto copy = host_copy(entry.raw.data(), entry.raw_bytes, entry.device->saved_on);
  if (copy == nullptr) return {};
  return policy::plane_ranges(candidate.what, copy.get(), candidate.group);
}

c10::Storage DeviceHolding::try_out(const Entry& entry, const c10::Storage& exact,
                                    const Plan::Candidate& candidate, codecs::RandomKey key) {
  return round_trip(exact, candidate, key, entry.device->saved_on);
}

void DeviceHolding::note_size(Planner& planner, const Entry& entry) {
  const OnDevice& held = *entry.device;
  if (held.outcome != nullptr) return Planner::note_size(entry, held.outcome);
  planner.note_size(entry, held.exact_bytes == 0 ? entry.encoded_bytes : held.exact_bytes);
}

void DeviceHolding::saved(Entry& entry, const c10::Storage& storage) {
  const c10::Stream stream = lasting(current_stream(storage.device()));
  if (entry.device == nullptr) {
    entry.device = std::make_unique<OnDevice>(stream);
  } else {
    entry.device->saved_on = stream;
  }
}

void DeviceHolding::planned(const Entry& entry) {
  auto& most = most_needed_[entry.device->index()];
  const std::size_t needed = std::max(entry.plan().device_bytes, Planner::harder_bytes(entry));
  if (most.load(std::memory_order_relaxed) < needed) most.store(needed, std::memory_order_relaxed);
}

void DeviceHolding::settled(Entry& entry) {
  parts_.enqueue(entry);
}

bool DeviceHolding::leave_queue(Entry& entry) noexcept {
  EntryQueue* const queue = entry.device->queue;
  if (queue != nullptr) queue->remove(entry);
  return queue != nullptr;
}

bool DeviceHolding::is_this_processes(const Entry& entry) const noexcept {
  return !entry.device->is_a_parents();
}

void DeviceHolding::before_settling(const Entry& entry) {
  const std::size_t needed = most_needed_[entry.device->index()].load(std::memory_order_relaxed);
  if (needed != 0) reserve_.ensure(entry.device_index(), needed);
  unsized_.take_outcomes(entry.device_index());
}

void DeviceHolding::before_reading(const Entry& entry) {
  unsized_.take_outcomes(entry.device_index());
}

std::optional<Holding::Room> DeviceHolding::room_for(Entry& entry, EntryKeeper::When when) {
  return unsized_.room_for(entry, when);
}

void DeviceHolding::carried_out(Entry& entry, const Room& room, bool kept) {
  if (kept && entry.plan().offload == policy::Decision::Offload::always) {
    entry.device->encoding = work_of(entry.device->saved_on);
  }
  unsized_.carried_out(entry, room);
}

bool DeviceHolding::await_room(const Entry& entry, const Room& room) {
  return unsized_.await_outcomes(entry.device_index(), room.bytes) != 0;
}

void DeviceHolding::settle_now(std::span<Entry* const> ready, int device, std::size_t bytes) {
  {
    const std::lock_guard lock(parts_.lists.mutex);
    if (ready.empty() && queues_.put_off.oldest(device) == nullptr) return;
  }
  const std::size_t reserved = reserve_.release(device);
  for (Entry* entry : ready) {
    parts_.keeper.settle(*entry, torch_parallel_for, EntryKeeper::When::room);
  }
  std::size_t freed = unsized_.await_outcomes(device, bytes);
  while (freed < bytes && unsized_.settle_put_off(device)) {
    freed += unsized_.await_outcomes(device, bytes - freed);
  }
  const AtWork here;  // ensure() must not start another rescue
  reserve_.ensure(device, reserved);
}

std::size_t DeviceHolding::give_up(int device, std::size_t bytes) {
  std::size_t freed = unsized_.await_outcomes(device, bytes);
  if (freed < bytes) freed += rescue_.give_up_read_ahead(device, bytes - freed);
  if (freed < bytes) freed += rescue_.give_up_samples(device, bytes - freed);
  return freed;
}

std::size_t DeviceHolding::encode_harder(int device, std::size_t bytes) {
  return rescue_.encode_harder(device, bytes);
}

std::size_t DeviceHolding::move_out(int device, std::size_t bytes) {
  return offloader_.move_out(device, bytes);
}

std::size_t DeviceHolding::release_reserve(int device) {
  return reserve_.release(device);
}

}  // namespace cinch::hooks
