// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>

#include "codecs/codec.h"
#include "hooks/torch/program/site.h"
#include "hooks/torch/stash/entry/exact_part.h"
#include "hooks/torch/stash/entry/sides.h"
#include "hooks/torch/stash/saved/geometry.h"
#include "hooks/torch/stash/saved/storage_identity.h"

namespace cinch::hooks {

struct EntryClass;
struct EntryRow;
struct OnDevice;
struct Plan;
struct Recipe;

/// Extents of a plane.
using Extent = std::array<std::int32_t, 3>;

/// That of a power, or a norm's order. No wider than the others, of which there is one for each
/// use.
struct Exponent {
  float value;
};

/// That of scatter_reduce and its like.
struct Reduction {
  bool is_linear;  ///< a sum or a mean
};

/// What the bytes of a recurrent layer's workspace are, zeros between them.
struct Numbers {
  c10::ScalarType type;
};

/// An operator's parameters that belong to a saved tensor: for max-pool's indices the extents of
/// the pooled input's plane, for an input that is compared with numbers these, for the base of a
/// power the exponent, for a norm's input its order, for scatter_reduce's operands the reduction,
/// for a recurrent layer's workspace what is in it.
using OperatorSays =
    std::variant<std::monostate, Extent, std::array<float, 2>, Exponent, Reduction, Numbers>;

/// One saving of a storage: by which site, and as what. Owned by the hook that autograd holds, or
/// by a recipe. Linked into its entry's list of uses.
struct Use {
  Site* site = nullptr;
  Use* previous = nullptr;
  Use* next = nullptr;
  Geometry geometry;
  OperatorSays operator_says;
  c10::ScalarType type = c10::ScalarType::Undefined;
  bool is_output : 1 = false;
  bool is_conjugate : 1 = false;  ///< lazily: the storage holds the complex conjugates
  /// Whether a recipe made it, as a RecipesUse: recipes read values, whatever the operator's
  /// backward reads.
  bool is_recipes : 1 = false;
  /// policy::Use::is_argument
  bool is_argument : 1 = false;
  /// Whether Cinch holds the tensor in place of what the program saved (held_compared.h).
  bool is_stand_in : 1 = false;
  /// Of an operand that backward only compares: whether it may be compared with what is saved next.
  bool awaits_comparison : 1 = false;
  /// Of an operand that backward only compares: whether a stand-in says how it compares, so that
  /// backward reads no value of this one.
  bool is_comparison_held : 1 = false;
  /// policy::Use::is_magnified
  bool is_magnified : 1 = false;
  /// policy::Use::is_linear_output
  bool is_linear_output : 1 = false;
  /// What backward reads of it; set when the entry is planned, perhaps while another thread's
  /// backward reads it.
  std::atomic<codecs::Reads> reads = codecs::Reads::values;
  /// The lower half of the autograd node's sequence number, which counts per forward thread.
  std::uint32_t sequence = 0;
};

struct RecipesUse : Use {
  const Recipe* recipe = nullptr;  ///< which made it
};

/// The decoded storages of an entry that somebody still holds, one per kind of read.
struct DecodedStorages {
  std::array<c10::weak_intrusive_ptr<c10::StorageImpl>, codecs::kReadsCount> alive = {
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()),
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()),
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>()),
      c10::weak_intrusive_ptr<c10::StorageImpl>(c10::intrusive_ptr<c10::StorageImpl>())};
  /// Decoded before backward asked for it, or kept for a reader that is to come: values of a source
  /// whose own node runs soon, or that took long to compute. Held here until backward reads it.
  c10::Storage ahead;
  /// Values that the program's own code was given. It may write to them, so every later read by
  /// the program gets the same storage.
  c10::Storage lent;
};

/// Exact values of an entry, kept while the guard watches it, a policy tries it, or exact gradients
/// are computed.
struct GuardSample {
  c10::Storage exact;             ///< all of them, or those of `part` alone
  std::optional<ExactPart> part;  ///< nothing: `exact` is whole
  bool values_measured = false;

  /// Share of the entry's bytes that `exact` has.
  double share() const noexcept { return part ? part->share() : 1; }
};

/// group_quant's figures of an entry's planes, found when it was encoded.
struct PlaneNumbers {
  std::vector<float> ranges;       ///< see policy::plane_ranges; empty unless Entry::ranged
  std::vector<std::uint8_t> bits;  ///< of mixed bits: decoding needs them
};

/// One storage in the stash (docs/design.md, "The sole-owner rule").
///
/// The entry's `mutex` guards `state`, `candidate`, `raw`, `encoded…`, `decoded`, `captured` and
/// `sample`; it is taken before the stash's lock, which guards the rest. Of a settled entry only
/// `decoded` changes under `mutex` alone. Learning its size, encoding it anew and moving it to the
/// host change other members, under both locks.
struct Entry {
  Entry();
  ~Entry();

  enum class State : std::uint8_t {
    pending,  ///< raw, not settled yet
    kept,     ///< raw for good
    encoded,
    dropped,  ///< nothing is held: backward reads no value of it
    moved,    ///< raw, in the host's memory instead of its device's
    derived,  ///< computed from other entries' values; `encoded` is a mask if backward reads signs
  };
  /// How far the entry is on its way (EntryLists).
  enum class Place : std::uint8_t {
    owned,     ///< somebody else owns the storage too, as far as is known
    window,    ///< only the stash owns the storage; may stay raw for a while
    settling,  ///< left the window, is about to be settled
    settled,
  };

  c10::Storage raw;          ///< while pending or kept
  StorageIdentity identity;  ///< of `raw`
  c10::detail::UniqueVoidPtr encoded;
  std::size_t encoded_bytes = 0;
  std::unique_ptr<DecodedStorages> decoded;  ///< null until the first decoding
  std::unique_ptr<GuardSample> sample;       ///< set while watched, tried or compared
  std::unique_ptr<PlaneNumbers> planes;      ///< set when encoded in mixed bits, or `ranged`
  std::unique_ptr<OnDevice> device;          ///< set when the storage lies on a CUDA device
  /// How to compute its values from other entries; set when it is saved (a log-sum-exp's: when its
  /// output is), or never. Has no sources any more once the entry is settled otherwise than
  /// derived.
  std::unique_ptr<Recipe> recipe;
  /// Given by a recipe, while nobody settles the entry; until it is encoded. Under the stash's
  /// lock, then the settling thread's.
  std::unique_ptr<Sides> sides;
  // Neighbouring bit-fields are one memory location, so those that share a byte must belong to the
  // same lock.
  State state : 3 = State::pending;
  bool captured : 1 = false;       ///< a CUDA graph reads the held bytes: they must not change
  std::uint8_t candidate : 4 = 0;  ///< which of the plan's candidates encoded it
  std::uint8_t : 0;
  Place place : 4 = Place::owned;
  std::uint8_t caution : 4 = 0;  ///< the guard's level of caution that it was planned with
  bool watched = false;          ///< by the guard; decided when it leaves the window
  bool counted = false;          ///< among EntryLists::planned
  // Set when it is saved, when it is planned and when it leaves the window, never changed after
  // that.
  bool unsaved : 1 = false;   ///< the program did not save it: a recipe's own copy, a stand-in
  bool tried : 1 = false;     ///< its exact values are kept for an adaptive policy's trials
  bool compared : 1 = false;  ///< its exact values are kept to compute exact gradients
  bool ranged : 1 = false;    ///< its planes' ranges are wanted
  bool shared : 1 = false;    ///< in SharedEntries: it is encoded though the program owns it
  std::uint8_t : 0;
  bool ahead : 1 = false;     ///< counted by ReadAhead as decoded ahead
  bool sized : 1 = false;     ///< its class was told its encoded size
  bool wanted : 1 = false;    ///< its exact values are, to prove a recipe or to be compared
  std::uint16_t member = 0;   ///< index in the class's members
  std::uint32_t holders = 0;  ///< uses, plus threads that work on it
  std::uint32_t id = 0;
  std::uint32_t step = 0;         ///< optimizer steps before it was saved
  std::uint32_t place_index = 0;  ///< position in the list of `place`, or in its EntryQueue
  std::size_t raw_bytes = 0;
  /// How many of its exact values' bytes a sample keeps while it is watched or tried. Set when
  /// these are.
  std::size_t sample_bytes = 0;
  /// Of the first use's base if it is a view; null once planned. Counts elements of the base, which
  /// may be of another type.
  std::unique_ptr<Geometry> cover;
  Use* first_use = nullptr;
  Use* last_use = nullptr;
  std::shared_ptr<EntryClass> entry_class;
  EntryRow* row = nullptr;  ///< of the report; set when planned
  std::shared_ptr<const Plan> own_plan;

  /// Shared with other entries: there are too many for a mutex each. No thread may hold two.
  std::mutex& mutex() const noexcept {
    static std::array<std::mutex, 64> mutexes;
    return mutexes[id % mutexes.size()];
  }

  /// @pre planned
  const Plan& plan() const noexcept { return *own_plan; }

  /// Whether `raw` is set.
  bool is_raw() const noexcept { return state == State::pending || state == State::kept; }

  /// Whether `raw` still is the memory that was saved: the program may replace it. @pre is_raw()
  bool is_as_saved() const { return identity.is(raw, raw_bytes); }

  /// Whether only the stash owns `raw`, and it is as saved. @pre is_raw()
  bool is_solely_ours() const { return raw.use_count() == 1 && is_as_saved(); }

  /// Index of its CUDA device; -1: host memory.
  int device_index() const noexcept;

  /// Bytes of it that were moved from its device to the host's memory.
  std::size_t offloaded_bytes() const noexcept;

  /// Whether the source is held besides the encoding, until the host knows the encoded size.
  bool keeps_source() const noexcept;
  /// @pre keeps_source()
  const c10::Storage& source() const noexcept;

  /// Bytes of the recipe's constants; 0 without a recipe.
  std::size_t constant_bytes() const noexcept;

  /// Bytes that a settled entry takes where its storage was, without what was moved to the host.
  std::size_t stored_bytes() const noexcept {
    if (device != nullptr && offloaded_bytes() != 0) return 0;
    if (is_raw()) return raw_bytes;
    if (state == State::derived) {
      return encoded_bytes + constant_bytes() + (sample == nullptr ? 0 : sample->exact.nbytes());
    }
    if (keeps_source()) return encoded_bytes + raw_bytes;
    return encoded_bytes + (sample == nullptr ? 0 : sample->exact.nbytes());
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
