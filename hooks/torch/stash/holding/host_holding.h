// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "hooks/torch/process/buffer_pool.h"
#include "hooks/torch/stash/adapting/guard_looks.h"
#include "hooks/torch/stash/adapting/policy_in_force.h"
#include "hooks/torch/stash/holding/derivation.h"
#include "hooks/torch/stash/holding/holding.h"

namespace cinch::hooks {

/// Entries in the host's memory: encoded and decoded synchronously, on the calling thread.
class HostHolding final : public Holding {
 public:
  HostHolding(const PolicyInForce& policy, EntryKeeper& keeper, BufferPool& buffers,
              Derivation& derivation, GuardLooks& looks)
      : policy_(policy),
        keeper_(keeper),
        buffers_(buffers),
        derivation_(derivation),
        looks_(looks) {}

  std::string_view encode(Entry& entry, c10::Storage& freed,
                          codecs::ParallelFor parallel_for) override;
  c10::Storage decode(Entry& entry, codecs::Reads reads) override;
  c10::Storage decode_ahead(Entry& entry, codecs::Reads reads) override;
  c10::Storage without_values(const Entry& entry) override;
  bool encode_mask(Entry& entry, codecs::ParallelFor parallel_for) override;
  SourceErrors errors_of(Entry& entry) override;
  c10::Storage compute(Entry& entry, std::span<const void* const> values,
                       std::span<const SourceErrors> errors, at::Tensor& other) override;
  c10::Storage compute_in_one_pass(Entry& entry) override;
  Proofs::Found compare(Recipe& recipe, std::span<const void* const> values,
                        const at::Tensor& actual, bool near_serves) override;
  std::optional<ValueError> error_of(Entry& entry, const c10::Storage& decoded) override;
  std::vector<float> plane_ranges(const Plan::Candidate& candidate, const Entry& entry) override;
  c10::Storage try_out(const Entry& entry, const c10::Storage& exact,
                       const Plan::Candidate& candidate, codecs::RandomKey key) override;
  void note_size(Planner& planner, const Entry& entry) override;
  bool is_for_side_thread() const noexcept override { return true; }
  void settle_now(std::span<Entry* const> ready, int device, std::size_t bytes) override;

 private:
  std::optional<std::string_view> encode_as(Entry& entry, std::size_t index, c10::Storage& freed,
                                            codecs::ParallelFor parallel_for);
  c10::Storage decode(Entry& entry, codecs::Reads reads, codecs::ParallelFor parallel_for);
  c10::DataPtr signs_in_source(const Entry& entry);

  const PolicyInForce& policy_;
  EntryKeeper& keeper_;
  BufferPool& buffers_;
  Derivation& derivation_;
  GuardLooks& looks_;
};

}  // namespace cinch::hooks
