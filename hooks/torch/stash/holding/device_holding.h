// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>

#include "hooks/torch/stash/device/reserve.h"
#include "hooks/torch/stash/holding/derivation.h"
#include "hooks/torch/stash/holding/device_parts.h"
#include "hooks/torch/stash/holding/device_rescue.h"
#include "hooks/torch/stash/holding/holding.h"
#include "hooks/torch/stash/holding/offloader.h"
#include "hooks/torch/stash/holding/stream_encoder.h"
#include "hooks/torch/stash/holding/unsized_encodings.h"

namespace cinch::hooks {

/// Entries on CUDA devices. Work is enqueued on streams; the host waits for it only where it must
/// (docs/cuda.md).
class DeviceHolding final : public Holding {
 public:
  /// @param uses_side_stream Whether the policy's stream is "side"
  DeviceHolding(bool uses_side_stream, EntryLists& lists, Statistics& statistics,
                const PolicyInForce& policy, EntryKeeper& keeper, Derivation& derivation,
                GuardLooks& looks, ReadAhead& read_ahead);

  std::string_view encode(Entry& entry, c10::Storage& freed,
                          codecs::ParallelFor parallel_for) override;
  c10::Storage decode(Entry& entry, codecs::Reads reads) override;
  c10::Storage decode_ahead(Entry& entry, codecs::Reads reads) override;
  void fetch_ahead(Entry& entry) noexcept override { offloader_.fetch_ahead(entry); }
  void hand_over(Entry& entry, const c10::Storage& decoded, codecs::Reads reads) override;
  c10::Storage without_values(const Entry& entry) override;
  c10::Storage restore_in_capture(Entry& entry, const Use& use) override;
  bool encode_mask(Entry& entry, codecs::ParallelFor parallel_for) override;
  void lend(const Entry& entry, const c10::Storage& storage) override;
  SourceErrors errors_of(Entry& entry) override;
  c10::Storage compute(Entry& entry, std::span<const void* const> values,
                       std::span<const SourceErrors> errors, at::Tensor& other) override;
  void computed(Entry& entry) override;
  Proofs::Found compare(Recipe& recipe, std::span<const void* const> values,
                        const at::Tensor& actual, bool near_serves) override;
  void own_constants(Recipe& recipe) override;
  std::optional<ValueError> error_of(Entry& entry, const c10::Storage& decoded) override;
  std::vector<float> plane_ranges(const Plan::Candidate& candidate, const Entry& entry) override;
  c10::Storage try_out(const Entry& entry, const c10::Storage& exact,
                       const Plan::Candidate& candidate, codecs::RandomKey key) override;
  void note_size(Planner& planner, const Entry& entry) override;

  void saved(Entry& entry, const c10::Storage& storage) override;
  void planned(const Entry& entry) override;
  void settled(Entry& entry) override;
  bool leave_queue(Entry& entry) noexcept override;
  bool is_this_processes(const Entry& entry) const noexcept override;

  bool is_for_side_thread() const noexcept override { return false; }
  void before_settling(const Entry& entry) override;
  void after_settling() override { offloader_.move_surplus(); }
  void before_reading(const Entry& entry) override;
  void settle_if_put_off(Entry& entry) override { unsized_.settle_put_off(entry); }
  std::optional<Room> room_for(Entry& entry, EntryKeeper::When when) override;
  void carried_out(Entry& entry, const Room& room, bool kept) override;
  bool await_room(const Entry& entry, const Room& room) override;

  void settle_now(std::span<Entry* const> ready, int device, std::size_t bytes) override;
  std::size_t give_up(int device, std::size_t bytes) override;
  std::size_t encode_harder(int device, std::size_t bytes) override;
  std::size_t move_out(int device, std::size_t bytes) override;
  std::size_t release_reserve(int device) override;

  const Offloader& offloader() const noexcept { return offloader_; }
  const StreamEncoder& encoder() const noexcept { return encoder_; }
  const UnsizedEncodings& unsized() const noexcept { return unsized_; }

 private:
  DeviceQueues queues_;
  const DeviceParts parts_;
  Derivation& derivation_;
  StreamEncoder encoder_;
  Reserve reserve_;
  UnsizedEncodings unsized_;
  Offloader offloader_;
  DeviceRescue rescue_;
  // The most memory that encoding one entry may need, by device. Grows under the stash's lock.
  std::array<std::atomic<std::size_t>, 128> most_needed_{};
};

}  // namespace cinch::hooks
