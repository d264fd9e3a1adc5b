// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codecs/host_device.h"

namespace cinch::codecs {

/// Element types that codecs know.
enum class ElementType : std::uint8_t {
  float32,
  bfloat16,
  float16,
  float64,
  boolean,
  uint8,
  int16,
  int32,
  int64,
  other
};

/// Size of one element in bytes; 0 for `ElementType::other`, whose bytes only `raw` can take.
std::size_t element_size(ElementType type) noexcept;

/// The type's name as PyTorch and policy files write it: "float32", "bool", …, "other".
std::string_view type_name(ElementType type) noexcept;

/// The type with this name, or nullopt. "other" is not a name that can be looked up.
std::optional<ElementType> type_named(std::string_view name) noexcept;

/// A set of element types.
class ElementTypes {
 public:
  constexpr ElementTypes(std::initializer_list<ElementType> types) noexcept {
    for (const ElementType type : types) bits_ |= 1U << static_cast<unsigned>(type);
  }
  constexpr bool contain(ElementType type) const noexcept {
    return (bits_ >> static_cast<unsigned>(type) & 1U) != 0;
  }

 private:
  unsigned bits_ = 0;
};

/// What all quantizing codecs of Cinch take. Some take float64 too (CodecTraits::floats).
inline constexpr ElementTypes kQuantizableTypes = {ElementType::float32, ElementType::bfloat16,
                                                   ElementType::float16};

/// Floating-point numbers.
inline constexpr ElementTypes kFloatTypes = {ElementType::float32, ElementType::bfloat16,
                                             ElementType::float16, ElementType::float64};

/// Whether all quantizing codecs take elements of this type.
constexpr bool is_quantizable(ElementType type) noexcept {
  return kQuantizableTypes.contain(type);
}

/// Whether elements of this type are floating-point numbers.
constexpr bool is_float(ElementType type) noexcept {
  return kFloatTypes.contain(type);
}

/// What an operator's backward reads of one of its saved operands.
///
/// `nothing` is the least and `values` the most. `sign` and `interval` are different parts of the
/// values: neither can be derived from the other.
enum class Reads : std::uint8_t {
  nothing,   ///< only shape and memory format: max- and average-pool inputs
  sign,      ///< only whether x > 0: ReLU's and leaky ReLU's saved tensor
  interval,  ///< only whether lower < x < upper, the operator's bounds: ReLU6's and hardtanh's
             ///< input
  values,    ///< everything
};
inline constexpr std::size_t kReadsCount = static_cast<std::size_t>(Reads::values) + 1;

/// Whether data of which a codec restores `restored` exactly are enough for a backward that reads
/// `reads`. For `interval` the bounds must also be equal; this function does not know them.
constexpr bool serves(Reads restored, Reads reads) noexcept {
  return restored == Reads::values || restored == reads || reads == Reads::nothing;
}

/// How the elements of one storage form planes.
///
/// A plane is what a codec treats as a unit: DIVISION's feature map of one (sample, channel) or row
/// of features, ActNN's sample. Codecs by channel take the planes of equal `i` below, over all `o`,
/// as channel i: M = outer * plane_size() elements, in the order of (o, d, h, w). All numbers count
/// elements. Plane `p = o * inner + i` starts at `o * outer_stride + i * inner_stride`; its element
/// (d, h, w) lies `d * stride[0] + h * stride[1] + w * stride[2]` behind that. Unused leading
/// extents are 1. The *logical index* of an element, which is what random draws are counted by, is
/// `p * plane_size() + (d * extent[1] + h) * extent[2] + w`; so memory format does not change the
/// encoded bytes.
struct PlaneLayout {
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  std::int64_t outer_stride = 0;
  std::int64_t inner_stride = 0;
  std::array<std::int64_t, 3> extent = {1, 1, 1};
  std::array<std::int64_t, 3> stride = {0, 0, 1};

  CINCH_HD std::int64_t planes() const noexcept { return outer * inner; }
  CINCH_HD std::int64_t channels() const noexcept { return inner; }
  CINCH_HD std::int64_t plane_size() const noexcept { return extent[0] * extent[1] * extent[2]; }
  CINCH_HD std::int64_t elements() const noexcept { return planes() * plane_size(); }
  /// True when logical index equals memory offset for every element.
  bool is_contiguous() const noexcept;

  /// `n` consecutive elements cut into rows of `row`. @pre row > 0 and n is a multiple of row.
  static PlaneLayout rows(std::int64_t n, std::int64_t row) noexcept;
};

/// Describes the data to encode, without the data.
///
/// Per-channel arrays have layout.channels() values and lie in memory of the engine that reads them
/// (device memory for CUDA). Only `encode` reads them: decoding needs nothing but the encoded
/// bytes. Pointers and spans must stay valid until the call's work is done.
struct Description {
  ElementType type = ElementType::float32;
  PlaneLayout layout;
  /// For `window_index` only: extents {D, H, W} of the pooling input's plane that indices point
  /// into.
  std::array<std::int64_t, 3> index_extent = {1, 1, 1};
  /// For `group_quant` only: bits of each plane, 1 to 8; planes() values, in host memory for every
  /// engine. Empty: CodecSpec::bits for all planes. `encoded_bytes` and `encode` must get the same.
  std::span<const std::uint8_t> plane_bits = {};
  /// For `blpa` only: center and scale by channel (the producing normalization's beta and gamma);
  /// null: mean and standard deviation of the data.
  const float* channel_center = nullptr;
  const float* channel_scale = nullptr;
  /// For `fixed_point` only: error bound by channel; null: CodecSpec::error_bound for all.
  const float* channel_bound = nullptr;
  /// For `two_sided` only: which elements are on the upper side, and the normalization before they
  /// are quantized (two_sided.h). Channel of an element is its index in its plane, divided by
  /// `run`; the arrays have plane_size() / run values. `encoded_bytes` and `encode` must get the
  /// same. `center` and `spread` are both given or both null, as are `factor` and `summand`.
  struct Sides {
    /// Upper where fma(x, factor, summand) > 0; null: where x > 0.
    const float* factor = nullptr;
    const float* summand = nullptr;
    /// Elements are quantized as (x - center) / spread; null: as they are. |center| <= 2^80 and
    /// 0 < spread <= 2^40, else the groups that have elements of the channel are poisoned.
    const float* center = nullptr;
    const float* spread = nullptr;
    /// Neighbouring elements of one channel, a divisor of plane_size(). Ignored without arrays.
    std::int64_t run = 0;
  };
  Sides sides = {};
};

/// Key of the random stream: Philox4x32-7 with key (seed, entry) and counter (element / 8, step).
struct RandomKey {
  std::uint32_t seed = 0;
  std::uint32_t entry = 0;
  std::uint64_t step = 0;
};

/// Runs `body(argument, begin, end)` over disjoint ranges that cover [0, n), perhaps on several
/// threads, and returns when all have run. Ranges start at multiples of `grain`.
using ParallelForBody = void (*)(void* argument, std::int64_t begin, std::int64_t end);
using ParallelFor = void (*)(std::int64_t n, std::int64_t grain, ParallelForBody body,
                             void* argument);

/// The ParallelFor that runs everything on the calling thread.
void serial_for(std::int64_t n, std::int64_t grain, ParallelForBody body, void* argument);

/// Calls `parallel` with a callable `f(begin, end)`. Does not allocate.
template <typename F>
void for_range(ParallelFor parallel, std::int64_t n, std::int64_t grain, F&& f) {
  parallel(
      n, grain,
      [](void* p, std::int64_t b, std::int64_t e) {
        (*static_cast<std::remove_reference_t<F>*>(p))(b, e);
      },
      const_cast<void*>(static_cast<const void*>(&f)));
}

/// What is done to decoded elements while they are in the caches.
class Epilogue {
 public:
  /// @param apply `apply(begin, end)` gets elements [begin, end) of the target, counted in memory
  ///   order, perhaps on several threads. Ranges are disjoint, cover all elements, and begin at
  ///   multiples of 8. Must outlive this
  template <typename F>
  explicit Epilogue(const F& apply)
      : apply_([](const void* f, std::int64_t begin, std::int64_t end) {
          (*static_cast<const F*>(f))(begin, end);
        }),
        argument_(&apply) {}

  void operator()(std::int64_t begin, std::int64_t end) const { apply_(argument_, begin, end); }

 private:
  void (*apply_)(const void* argument, std::int64_t begin, std::int64_t end);
  const void* argument_;
};

/// Result of Codec::encode.
struct Encoded {
  /// False: this codec can't hold these data (not two-valued, an index outside any window, NaN or
  /// infinity in a quantizing codec), and the caller tries another codec or keeps the source. On
  /// CUDA the source is gone by the time this is known. So quantizing codecs write all bytes even
  /// then, the same in every engine, and poison each plane, group or channel that can't be held: it
  /// decodes to NaN, never to wrong finite values. Other codecs' bytes must not be decoded then.
  bool representable = false;
  /// Encoded size; at most `encoded_bytes()`.
  std::size_t bytes = 0;
};

/// Where to encode to, asked for once it is known how many bytes that takes at most.
class Room {
 public:
  /// @param give `std::byte* give(std::size_t bytes)`: the memory, or null to end the encoding.
  ///   Must outlive this
  template <typename F>
  explicit Room(const F& give)
      : give_([](const void* f, std::size_t bytes) { return (*static_cast<const F*>(f))(bytes); }),
        argument_(&give) {}

  std::byte* operator()(std::size_t bytes) const { return give_(argument_, bytes); }

 private:
  std::byte* (*give_)(const void* argument, std::size_t bytes);
  const void* argument_;
};

/// Which group the elements of a storage are of, in memory order.
struct GroupOrder {
  std::int64_t group = 1;  ///< elements of each; of a plane's last one perhaps fewer
  std::int64_t plane = 1;  ///< elements of each plane
  /// A plane's groups alternate in memory: its element k is of group k % (plane / group).
  bool interleaved = false;

  std::int64_t groups_of_plane() const noexcept { return (plane - 1) / group + 1; }
};

/// Groups of neighbouring elements whose decoded values err by at most half a step, evenly on
/// either side, whatever the values are: what subtractive dithering makes of them.
struct EvenErrors {
  std::int64_t ranges = 0;  ///< byte offset of the encoded data's AffineRange of each group
  std::int64_t groups = 0;  ///< in all
  GroupOrder order;
};

/// Encodes a storage to fewer bytes and decodes it. Immutable and thread-safe. Allocates nothing
/// but scratch of a few planes.
///
/// Every engine of a codec writes the same bytes; the scalar `reference` engine is the
/// specification.
class Codec {
 public:
  Codec() = default;
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  virtual ~Codec() = default;

  /// The name it is registered and reported under.
  virtual std::string_view name() const noexcept = 0;

  /// The most that `decode` can restore.
  virtual Reads restores() const noexcept = 0;

  /// Whether this codec can encode data of this description.
  virtual bool accepts(const Description& what) const noexcept = 0;

  /// Upper bound of the encoded size in bytes; exact for fixed-rate codecs.
  /// @pre accepts(what)
  virtual std::size_t encoded_bytes(const Description& what) const noexcept = 0;

  /// Encodes the elements at `source`. @pre accepts(what), out.size() >= encoded_bytes(what)
  virtual Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                         RandomKey key, ParallelFor parallel) const = 0;

  /// The same to memory that `room` gives. Codecs that find the size before they write ask for just
  /// that, others for encoded_bytes().
  /// @return what is not representable, if `room` gave no memory
  virtual Encoded encode_into(const Description& what, const void* source, const Room& room,
                              RandomKey key, ParallelFor parallel) const;

  /// Writes every element that `what.layout` reaches at `target`, and no other bytes. For
  /// `Reads::sign` an element becomes positive where x > 0 held, else zero or negative: codecs that
  /// restore values exactly write the value, others 1 or 0. For `Reads::interval` an element
  /// becomes something in the interval where x was, else something that is not.
  /// @pre reads != nothing and serves(restores(), reads), and `in` is what encode wrote for `what`
  /// @return false when `in` is too short, when its header contradicts `what`, or when `reads`
  /// can't be derived from the encoded data: signs of approximated values without `with_sign` or
  /// `zero_code`, and their interval without `with_bounds`. Stays in bounds whatever bytes `in`
  /// holds.
  virtual bool decode(const Description& what, std::span<const std::byte> in, void* target,
                      Reads reads, ParallelFor parallel) const = 0;

  /// Decodes Reads::values, then lets `epilogue` work on them in `target`. Codecs that can do so
  /// call it for each piece that they have decoded. @pre as for decode(), and `what.layout` reaches
  /// all elements of a target without gaps
  /// @return false as decode() does; the epilogue may have run on some elements then
  virtual bool decode_with(const Description& what, std::span<const std::byte> in, void* target,
                           const Epilogue& epilogue, ParallelFor parallel) const;

  /// Decodes Reads::sign to one bit an element, in memory order, the lowest bit of a byte first, as
  /// the codec `sign` holds them. @pre `out` has a bit for each element, `in` as for decode()
  /// @return false, and `out` is undefined, where decode() can't do that, or this codec does not
  virtual bool decode_sign_bits(const Description& /*what*/, std::span<const std::byte> /*in*/,
                                std::span<std::byte> /*out*/, ParallelFor /*parallel*/) const {
    return false;
  }

  /// Nullopt where decoded values err otherwise, or not in memory order.
  virtual std::optional<EvenErrors> even_errors(const Description& /*what*/) const noexcept {
    return {};
  }
};

/// What values decode to where CodecSpec::with_sign holds the sign x > 0 beside approximations.
enum class SignedValues : std::uint8_t {
  non_negative,  ///< 0 where x > 0 is false. For data without negatives only: a ReLU's output
  any,           ///< what the codec makes of them, near 0 perhaps of the other sign
  agreeing,      ///< the same, but what has the other sign moves next to 0: a small bias
};

/// The floor of CodecSpec where there is none.
inline constexpr float kNoFloor = -std::numeric_limits<float>::infinity();

/// A codec by name with its parameters, as policies write it. Unused fields are ignored.
struct CodecSpec {
  std::string name;  ///< one of codec_names()
  int bits = 2;      ///< bits per element (DIVISION's Q, BLPA's K, ActNN's b), 1 to 8
  int block = 8;     ///< pooling block edge (DIVISION's B), >= 1
  bool edge_ceil =
      true;  ///< partial border blocks kept; false: dropped, as DIVISION's pooling does
  /// Elements that share a range in `group_quant`, or two in `two_sided`; a positive multiple of 8.
  int group = 256;
  /// `division`: residuals that share a range (division_groups.h), a multiple of 8; 0: all of a
  /// plane, as in the paper.
  int residual_group = 0;
  /// `group_quant`, `two_sided`, and `division` with residual_group: subtractive dithering in place
  /// of stochastic rounding. Halves the variance; not for data with many values near 0 that matter
  /// as zeros, which it would scatter.
  bool subtractive_dither = false;
  /// `group_quant`: smaller elements count as this, rounded down to bfloat16. For the argument of a
  /// function that is flat there. kNoFloor, or at most kAffineMaxMagnitude in magnitude.
  float floor = kNoFloor;
  /// `group_quant` with subtractive_dither: codes are of the elements' square roots, and negative
  /// elements count as 0. For probabilities, most of which are far smaller than a group's largest.
  bool roots = false;
  /// `group_quant` with at least 2 bits, of other types than float64: code 0 is that of all
  /// elements that are not above 0, which decode to 0, so that the codes hold signs. For data
  /// without negatives: a ReLU's output.
  bool zero_code = false;
  /// The largest |x - decoded x| of `error_bounded_ratio`, `fixed_point` and `dct`; finite and > 0
  /// there.
  float error_bound = 0.0F;
  /// `fixed_point`, `dct`: zeros may be held as one bit each, used where that is smaller (AC-GC,
  /// section 5).
  bool zero_value = true;
  int refresh = 100;  ///< `error_bounded_ratio`: encodes that share one code book, >= 1
  /// `interval`, and with_bounds: the bounds of ReLU6, hardtanh, clamp and their like; lower <
  /// upper, or at most `upper` where both belong to the interval.
  float lower = 0.0F;
  float upper = 6.0F;
  bool closed = false;
  /// Also hold on which side of each finite bound each element lies, 1 bit each. For data whose
  /// values are read and compared with the bounds.
  bool with_bounds = false;
  /// Also hold the sign x > 0 of each element exactly, at most 1 bit. For data whose values and
  /// signs are both read.
  bool with_sign = false;
  SignedValues signed_values = SignedValues::non_negative;  ///< if with_sign
  /// `group_quant`, on the host: rows of zeros take one bit (without_zero_rows.h).
  bool without_zero_rows = false;

  bool operator==(const CodecSpec&) const = default;
};

enum class Engine : std::uint8_t { reference, cpu };

/// How faithfully a codec keeps data that it can hold.
enum class Fidelity : std::uint8_t {
  exact,        ///< what backward reads, bit for bit
  exact_signs,  ///< values approximately; signs and zeros exactly
  approximate,  ///< values approximately; signs only with CodecSpec::with_sign or zero_code, or as
                ///< sides
};

/// Which `CodecSpec` field sets the codec's precision.
enum class Precision : std::uint8_t { none, bits, error_bound };

/// The kind of data that a codec is made for. Ordered by size: the kind with the fewest bytes
/// first.
enum class Holds : std::uint8_t {
  flags,           ///< data of two distinct values
  window_indices,  ///< max-pooling's indices
  integers,
  floats,
  anything,  ///< any data, copied: no smaller
};

/// The planes that a codec works on.
enum class Planes : std::uint8_t {
  rows,      ///< rows of any length, as they lie in memory
  maps,      ///< feature maps, or rows of features; uses neighbouring elements
  samples,   ///< whole samples, cut into groups
  channels,  ///< feature maps, by channel; a linear layer's features are channels
};

/// Facts about a codec that are known without making one.
struct CodecTraits {
  Holds holds = Holds::floats;
  Fidelity fidelity = Fidelity::exact;
  Precision precision = Precision::none;
  Planes planes = Planes::rows;
  /// The most that any codec of this name restores (Codec::restores).
  Reads restores = Reads::values;
  /// Whether the encoded size depends on the data. `encoded_bytes()` may then exceed the source.
  bool sized_by_data = false;
  /// Whether each plane's block means are held beside quantized residuals (CodecSpec::block and
  /// residual_group). Small planes are then costly, and the error is that of the residuals.
  bool keeps_means = false;
  /// Whether CodecSpec::group elements share a range, and planes may differ in bits
  /// (Description::plane_bits).
  bool shares_ranges = false;
  /// Whether the codec itself holds signs of SignedValues::non_negative, without residual_group.
  /// All other signs beside approximated values are with_sign.h's.
  bool holds_signs = false;
  /// Whether the codec holds one bit an element beside its value, whatever CodecSpec::with_sign
  /// says: its side (Description::sides), which by default is its sign. Reads::sign gives it.
  bool holds_sides = false;
  /// Of codecs that hold floats: the types that they take. Those that quantize work on float64 as
  /// float32.
  ElementTypes floats = kQuantizableTypes;

  /// Whether a codec that holds floats takes floats of this type.
  constexpr bool takes(ElementType type) const noexcept { return floats.contain(type); }
};

/// The codec that holds floats losslessly.
inline constexpr std::string_view kLosslessFloats = "exponent_pack";

/// Nullopt for an unknown name.
std::optional<CodecTraits> codec_traits(std::string_view name) noexcept;

/// The codec that `spec` names; null when the name is unknown or a parameter is out of range. On a
/// processor without compiled kernels, Engine::cpu gives the reference engine's codec.
std::shared_ptr<const Codec> make_codec(const CodecSpec& spec, Engine engine = Engine::cpu);

/// Names known to make_codec, in alphabetical order.
std::span<const std::string_view> codec_names() noexcept;

}  // namespace cinch::codecs
