// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "codecs/host_device.h"

namespace cinch::codecs {

/// Types of the elements that a codec is given.
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

/// The type of that name, or nothing; "other" names none.
std::optional<ElementType> type_named(std::string_view name) noexcept;

/// Whether quantizing codecs take elements of this type: float32, bfloat16 and float16.
constexpr bool is_quantizable(ElementType type) noexcept {
  return type == ElementType::float32 || type == ElementType::bfloat16 ||
         type == ElementType::float16;
}

/// What an operator's backward reads of one of its saved operands.
///
/// `nothing` is the least and `values` the most; `sign` and `interval` are two different parts of
/// the values, and neither tells the other.
enum class Reads : std::uint8_t {
  nothing,   ///< only shape and memory format: max- and average-pool inputs
  sign,      ///< only whether x > 0: ReLU's and leaky ReLU's saved tensor
  interval,  ///< only whether lower < x < upper, the operator's bounds: ReLU6's and hardtanh's
             ///< input
  values,    ///< everything
};
inline constexpr std::size_t kReadsCount = static_cast<std::size_t>(Reads::values) + 1;

/// Whether what restores `restored` of exact data is enough for whoever reads `reads`. For
/// `interval` the bounds have to be the same, too.
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

/// What is encoded: the description of the bytes, without the bytes.
///
/// Numbers by channel lie in memory of the engine that reads them (device memory for CUDA), one for
/// each of layout.channels(), and are read by `encode` only: what decoding needs is in the encoded
/// bytes. Pointers and spans must stay valid until the call's work is done.
struct Description {
  ElementType type = ElementType::float32;
  PlaneLayout layout;
  /// For `window_index` only: extents {D, H, W} of the pooling input's plane that indices point
  /// into.
  std::array<std::int64_t, 3> index_extent = {1, 1, 1};
  /// For `group_quant` only: bits of each plane, 1 to 8, planes() of them, in host memory for every
  /// engine; empty: CodecSpec::bits for all. The same for `encoded_bytes` and `encode`.
  std::span<const std::uint8_t> plane_bits = {};
  /// For `blpa` only: center and scale by channel (the producing normalization's beta and gamma);
  /// null: mean and standard deviation of the data.
  const float* channel_center = nullptr;
  const float* channel_scale = nullptr;
  /// For `fixed_point` only: error bound by channel; null: CodecSpec::error_bound for all.
  const float* channel_bound = nullptr;
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

/// The caller's thread alone.
void serial_for(std::int64_t n, std::int64_t grain, ParallelForBody body, void* argument);

/// `parallel` over a callable `f(begin, end)`, without allocating.
template <typename F>
void for_range(ParallelFor parallel, std::int64_t n, std::int64_t grain, F&& f) {
  parallel(
      n, grain,
      [](void* p, std::int64_t b, std::int64_t e) {
        (*static_cast<std::remove_reference_t<F>*>(p))(b, e);
      },
      const_cast<void*>(static_cast<const void*>(&f)));
}

/// What encoding came to.
struct Encoded {
  /// False: this codec can't hold these data (not two-valued, an index outside any window, NaN or
  /// infinity in a quantizing codec); the caller tries another codec or keeps the source. Where the
  /// source is gone by the time this is known, as it is on CUDA, nothing silently wrong comes back:
  /// quantizing codecs write their bytes as always, the same in every engine, but the plane, group
  /// or channel that can't be held is poisoned, which is to say that it decodes to NaN. Other
  /// codecs' bytes must then not be decoded.
  bool representable = false;
  /// Bytes that hold the result; at most `encoded_bytes()`.
  std::size_t bytes = 0;
};

/// One way of turning a storage into fewer bytes and back. Immutable, thread-safe, and free of
/// allocation but for scratch of a few planes.
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

  /// True when what is restored makes every gradient bit-exact (given what backward reads).
  virtual bool exact() const noexcept = 0;

  /// Whether this codec takes data of this description at all.
  virtual bool accepts(const Description& what) const noexcept = 0;

  /// Upper bound, exact for fixed-rate codecs, of the bytes that `encode` writes. @pre
  /// accepts(what)
  virtual std::size_t encoded_bytes(const Description& what) const noexcept = 0;

  /// Encodes the elements at `source`. @pre accepts(what), out.size() >= encoded_bytes(what)
  virtual Encoded encode(const Description& what, const void* source, std::span<std::byte> out,
                         RandomKey key, ParallelFor parallel) const = 0;

  /// Writes every element that `what.layout` reaches at `target`; for `Reads::sign` something
  /// positive where x > 0 held and nothing positive elsewhere: the values if `exact()`, else 1 and
  /// 0; for `Reads::interval` something strictly between the bounds where x was, and something that
  /// isn't elsewhere. Bytes that the layout doesn't reach are left alone.
  /// @pre reads != nothing and serves(restores(), reads), and `in` is what encode wrote for `what`
  /// @return false when `in` is too short, its header contradicts `what`, or what is read can't be
  /// told from what is held: signs of approximated values without `with_sign`, and never the
  /// interval of approximated values. Nothing is read or written out of bounds whatever `in` holds.
  virtual bool decode(const Description& what, std::span<const std::byte> in, void* target,
                      Reads reads, ParallelFor parallel) const = 0;
};

/// A codec by name with its parameters, as policies write it. Unused fields are ignored.
struct CodecSpec {
  std::string name;  ///< one of codec_names()
  int bits = 2;      ///< bits per element (DIVISION's Q, BLPA's K, ActNN's b), 1 to 8
  int block = 8;     ///< pooling block edge (DIVISION's B), >= 1
  bool edge_ceil =
      true;         ///< partial border blocks kept; false: dropped, as DIVISION's pooling does
  int group = 256;  ///< elements that share a range in `group_quant`, a positive multiple of 8
  /// The largest |x - decoded x| of `error_bounded_ratio`, `fixed_point` and `dct`; finite and > 0
  /// there.
  float error_bound = 0.0F;
  /// `fixed_point`, `dct`: hold zeros as one bit each where that is smaller (AC-GC, section 5).
  bool zero_value = true;
  int refresh = 100;  ///< `error_bounded_ratio`: encodes between two makings of the code book, >= 1
  /// `interval`: the bounds of ReLU6, hardtanh and their like; lower < upper.
  float lower = 0.0F;
  float upper = 6.0F;
  /// Also hold 1 bit an element, x > 0, and restore exact zeros where it is 0: for non-negative
  /// data (a ReLU's output) whose values and signs are both read. `restores()` is then exact in
  /// sign.
  bool with_sign = false;

  bool operator==(const CodecSpec&) const = default;
};

enum class Engine : std::uint8_t { reference, cpu };

/// How faithfully a codec keeps data that it can hold.
enum class Fidelity : std::uint8_t {
  exact,        ///< what backward reads, bit for bit
  exact_signs,  ///< values approximately; signs and zeros exactly
  approximate,  ///< values approximately; signs only with CodecSpec::with_sign
};

/// What `CodecSpec` fields a codec of this name is told its precision by.
enum class Precision : std::uint8_t { none, bits, error_bound };

/// The data that a codec is made for, those that take the fewest bytes first.
enum class Holds : std::uint8_t {
  flags,           ///< of two values
  window_indices,  ///< of max-pooling
  integers,
  floats,
  anything,  ///< as they are: no smaller
};

/// The planes that a codec works on.
enum class Planes : std::uint8_t {
  rows,      ///< of any length: memory as it lies
  maps,      ///< feature maps, or rows of features: it looks at neighbours
  samples,   ///< whole samples, cut into groups
  channels,  ///< feature maps, by channel; a linear layer's features are channels
};

/// What is known of a codec before it is made.
struct CodecTraits {
  Holds holds = Holds::floats;
  Fidelity fidelity = Fidelity::exact;
  Precision precision = Precision::none;
  Planes planes = Planes::rows;
  /// The most that any such codec restores (Codec::restores).
  Reads restores = Reads::values;
  /// Whether only the data decide how many bytes they take: `encoded_bytes()` may then be more than
  /// the source has.
  bool sized_by_data = false;
  /// Whether each plane's block means are held beside what is left of the values: small planes cost
  /// much, and the error is that of the rest (CodecSpec::block).
  bool keeps_means = false;
  /// Whether CodecSpec::group elements share a range, and planes may differ in bits
  /// (Description::plane_bits).
  bool shares_ranges = false;
};

/// The codec that holds floats losslessly.
inline constexpr std::string_view kLosslessFloats = "exponent_pack";

/// Nothing for an unknown name.
std::optional<CodecTraits> codec_traits(std::string_view name) noexcept;

/// The codec that `spec` names, or null when the name is unknown or a parameter out of range. On a
/// processor that no kernel was compiled for, it is the reference engine's for `Engine::cpu` too.
std::shared_ptr<const Codec> make_codec(const CodecSpec& spec, Engine engine = Engine::cpu);

/// Names known to make_codec, in alphabetical order.
std::span<const std::string_view> codec_names() noexcept;

}  // namespace cinch::codecs
