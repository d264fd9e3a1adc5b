// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include "codecs/codec.h"
#include "codecs/interval.h"
#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/geometry.h"
#include "hooks/torch/stash/storage_identity.h"

namespace cinch::hooks {

struct EntryClass;
struct EntryRow;
struct OnDevice;
struct Plan;
struct Recipe;

/// Extents of a plane.
using Extent = std::array<std::int32_t, 3>;

/// What the operator that saves tells besides the tensor: of max-pool's indices the extents of the
/// pooled input's plane, of hardtanh's input its bounds.
using OperatorSays = std::variant<std::monostate, Extent, codecs::IntervalBounds>;

/// One saving of a storage: who saved it, and as what. Owned by the hook that autograd holds; a
/// link of its entry's list.
struct Use {
  Site* site = nullptr;
  Use* previous = nullptr;
  Use* next = nullptr;
  Geometry geometry;
  OperatorSays operator_says;
  c10::ScalarType type = c10::ScalarType::Undefined;
  bool is_output = false;
  /// A recipe's, which reads values whatever the operator's backward does.
  bool is_recipes = false;
  /// What backward reads of it; settled together with the entry's plan.
  codecs::Reads reads = codecs::Reads::values;
  /// The lower half of the autograd node's sequence number (per forward thread), for the guard.
  std::uint32_t sequence = 0;
};

/// What was decoded of an entry and is still held by somebody, by what is read of it.
struct DecodedStorages {
  std::array<c10::weak_intrusive_ptr<c10::StorageImpl>, codecs::kReadsCount> alive = {
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()),
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()),
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()),
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>())};
  /// Decoded ahead of being read, so held here until it is.
  c10::Storage ahead;
  /// Values that the program's own code was given. It may write to them, so it gets the same ones
  /// again.
  c10::Storage lent;
};

/// What the guard keeps of an entry that it watches.
struct GuardSample {
  c10::Storage exact;
  bool values_measured = false;
};

/// What encoding found out about group_quant's planes.
struct PlaneNumbers {
  std::vector<float> ranges;       ///< see policy::plane_ranges; where they are wanted
  std::vector<std::uint8_t> bits;  ///< of mixed bits, which decoding has to be told again
};

/// One storage in the stash (docs/design.md, "The sole-owner rule").
///
/// `state`, `candidate`, `raw`, `encoded…`, `decoded`, `captured` and `sample` belong to the
/// entry's `mutex`, which is taken before the stash's lock. Of these only `decoded` changes once
/// the entry is settled, and under both locks what learning its size, encoding it anew or moving it
/// to the host changes; the rest belongs to the stash's lock.
struct Entry {
  Entry();
  ~Entry();

  enum class State : std::uint8_t {
    pending,  ///< raw, until nobody else owns the storage and it is its turn to be encoded
    kept,     ///< raw for good
    encoded,
    dropped,  ///< backward reads no value of it
    moved,    ///< raw, in the host's memory instead of its device's
    derived,  ///< computed from other entries' values; `encoded` is a mask, where one is read
  };
  /// Where the stash lists it.
  enum class Place : std::uint8_t {
    owned,     ///< among those that somebody else owns too
    window,    ///< solely the stash's, and may stay raw for a while
    settling,  ///< on its way to be encoded
    settled,
  };

  c10::Storage raw;          ///< while pending or kept
  StorageIdentity identity;  ///< of `raw`
  c10::detail::UniqueVoidPtr encoded;
  std::size_t encoded_bytes = 0;
  std::unique_ptr<DecodedStorages> decoded;  ///< null until the first decoding
  std::unique_ptr<GuardSample> sample;       ///< set while the guard watches it, or it is tried
  std::unique_ptr<PlaneNumbers> planes;      ///< set when encoded in mixed bits, or `ranged`
  std::unique_ptr<OnDevice> device;          ///< set when the storage lies on a CUDA device
  /// How its values follow from others'; set when it is saved or never. Without sources once it is
  /// settled otherwise than derived.
  std::unique_ptr<Recipe> recipe;
  // What shares a byte belongs to the same lock; neighbouring bit-fields would be one memory
  // location.
  State state : 3 = State::pending;
  bool captured : 1 = false;       ///< a CUDA graph reads what is held, which so stays as it is
  std::uint8_t candidate : 4 = 0;  ///< which of the plan's candidates encoded it
  std::uint8_t : 0;
  Place place : 4 = Place::owned;
  std::uint8_t caution : 4 = 0;  ///< which of the class's plans is its own
  bool watched = false;          ///< by the guard; settled when it leaves the window
  bool tried = false;            ///< its exact values are kept for an adaptive policy's trials
  bool ranged = false;           ///< its planes' ranges are wanted
  bool ahead : 1 = false;        ///< counted among what is decoded ahead
  bool sized : 1 = false;        ///< its class knows what it took
  std::uint16_t member = 0;      ///< which of its class
  std::uint32_t holders = 0;     ///< uses, and whoever works on it
  std::uint32_t id = 0;
  std::uint32_t step = 0;         ///< optimizer steps before it was saved
  std::uint32_t place_index = 0;  ///< where in that list; meaningless when settling or settled
  std::size_t raw_bytes = 0;
  std::unique_ptr<Geometry> cover;  ///< of the base of views; null when the first use is no view
  Use* first_use = nullptr;
  Use* last_use = nullptr;
  std::shared_ptr<EntryClass> entry_class;
  EntryRow* row = nullptr;  ///< of the report; set when planned
  std::shared_ptr<const Plan> own_plan;

  /// Shared with other entries, of which there are too many for one each. Nobody holds two.
  std::mutex& mutex() const noexcept {
    static std::array<std::mutex, 64> mutexes;
    return mutexes[id % mutexes.size()];
  }

  /// @pre planned
  const Plan& plan() const noexcept { return *own_plan; }

  /// Whether `raw` is set.
  bool is_raw() const noexcept { return state == State::pending || state == State::kept; }

  /// Whether the program left `raw` the memory that it was when it was saved. @pre is_raw()
  bool is_as_saved() const { return identity.is(raw, raw_bytes); }

  /// Whether besides nobody else owns it. @pre is_raw()
  bool is_solely_ours() const { return raw.use_count() == 1 && is_as_saved(); }

  /// Index of the CUDA device that it is on; -1: host memory.
  int device_index() const noexcept;

  /// Bytes of what is held that are in the host's memory instead of its device's.
  std::size_t offloaded_bytes() const noexcept;

  /// Whether what was encoded is held besides, until it is known what the encoding came to.
  bool keeps_source() const noexcept;
  /// @pre keeps_source()
  const c10::Storage& source() const noexcept;

  /// Bytes of the recipe's constants where it is derived.
  std::size_t constant_bytes() const noexcept;

  /// What is held of a settled one where its storage was: not what was moved to the host.
  std::size_t stored_bytes() const noexcept {
    if (device != nullptr && offloaded_bytes() != 0) return 0;
    if (is_raw()) return raw_bytes;
    if (state == State::derived) {
      return encoded_bytes + constant_bytes() + (sample == nullptr ? 0 : raw_bytes);
    }
    return encoded_bytes + (sample == nullptr && !keeps_source() ? 0 : raw_bytes);
  }

  void append(Use& use) noexcept {
    use.previous = last_use;
    (last_use == nullptr ? first_use : last_use->next) = &use;
    last_use = &use;
  }
  void remove(Use& use) noexcept {
    (use.previous == nullptr ? first_use : use.previous->next) = use.next;
    (use.next == nullptr ? last_use : use.next->previous) = use.previous;
    use.previous = use.next = nullptr;
  }
};

}  // namespace cinch::hooks
