// SPDX-License-Identifier: Apache-2.0
// The joint decision over all uses of a storage: it is held so that the most demanding use is
// served, and no use ever reads a sign, a statistic or an index that was approximated.

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <exception>
#include <limits>
#include <numeric>
#include <utility>

#include "codecs/formats/masks/interval.h"
#include "codecs/formats/without_zero_rows.h"
#include "policy/algorithms/algorithm.h"
#include "policy/deciding/caution.h"
#include "policy/deciding/need.h"
#include "policy/deciding/offload.h"
#include "policy/layout.h"
#include "policy/match.h"
#include "policy/policy.h"

namespace cinch::policy {
namespace {

using codecs::CodecSpec;
using codecs::Description;
using codecs::ElementType;
using codecs::Holds;
using codecs::PlaneLayout;
using codecs::Planes;
using codecs::SignedValues;
using Level = Need::Level;

constexpr std::int64_t flat_row_length = 256;    // for planes too small for DIVISION
constexpr std::int64_t exact_row_length = 4096;  // codecs without statistics: any row will do

struct KnownUse {
  const Use* use;
  OperandFact fact;
  Need need;
  Geometry geometry;  ///< in elements of the use's type, of which complex numbers are two each
};

Decision keep(std::string_view reason) {
  return {Decision::Action::keep, reason, {}};
}

/// Makes the decision for one entry.
class Entry {
 public:
  Entry(const Settings& settings, const EntryDescription& description, int caution)
      : description_(description),
        caution_(caution),
        covers_floats_(!settings.others.keep),
        bytes_(static_cast<std::int64_t>(description.storage_bytes)) {
    for (const Use& use : description.uses) add(settings, use);
    type_ = uses_.front().use->type;
    if (std::ranges::any_of(uses_, [this](const KnownUse& u) { return u.use->type != type_; })) {
      type_ = ElementType::other;
      mixed_types_ = true;
    }
    const auto size = static_cast<std::int64_t>(codecs::element_size(type_));
    if (size > 0 && bytes_ % size == 0) elements_ = bytes_ / size;
    if (compares()) join_intervals();
  }

  Decision decide() const {
    const KnownUse& most =
        *std::ranges::max_element(uses_, {}, [](const KnownUse& u) { return u.need.level; });
    switch (most.need.level) {
      case Level::keep:
        return keep(most.need.reason);
      case Level::nothing:
        return {Decision::Action::drop, {}, {}};
      case Level::sign:
        return decide_sign(most.need.reason);
      case Level::interval:
        return decide_interval(most);
      case Level::approximate:
        return decide_approximate();
      case Level::exact:
        break;
    }
    return decide_exact(most.need.reason);
  }

 private:
  /// Adds a use; of a compiled region's tensor one for each read of its backward, as all of them
  /// get the same values.
  void add(const Settings& settings, const Use& use) {
    const Geometry geometry =
        use.is_complex ? pairs_.emplace_back(use.geometry).geometry() : use.geometry;
    if (use.reads.empty()) {
      const OperandFact fact = operand_fact(use.op, use.operand);
      uses_.push_back({&use, fact, need_of(settings, use, fact, description_.choice), geometry});
      if (uses_.back().need.level == Level::interval) add_values(settings, use, fact, geometry);
    }
    for (const BackwardRead& read : use.reads) {
      const OperandFact fact = fact_of(read);
      uses_.push_back({&use, fact, need_of(settings, use, read, fact), geometry});
    }
  }

  /// Notes what `use`, which compares with an interval, is to get where no mask serves. A recipe
  /// reads a factor's values there.
  void add_values(const Settings& settings, const Use& use, const OperandFact& fact,
                  const Geometry& geometry) {
    if (values_ && !use.is_recipes) return;
    const OperandFact of{.kind = use.is_recipes ? OperandKind::factor : fact.kind};
    values_ = KnownUse{&use, of, need_of(settings, use, of, description_.choice), geometry};
  }

  std::string_view unusable_reason() const {
    return mixed_types_ ? "one storage of several element types"
                        : "storage that is no whole number of elements";
  }

  Decision decide_sign(std::string_view reason) const {
    if (elements_ == 0) return keep(unusable_reason());
    return encode({candidate("sign")}, reason);
  }

  /// One mask serves all uses only if they read the same interval. Of several, values serve that
  /// keep their sides of all bounds, and what is computed from these needs no bytes.
  Decision decide_interval(const KnownUse& most) const {
    if (elements_ == 0) return keep(unusable_reason());
    const bool same = std::ranges::all_of(uses_, [&most](const KnownUse& u) {
      return u.need.level == Level::nothing ||
             (u.need.level == Level::interval && u.need.spec == most.need.spec);
    });
    if (!same && values_->need.level == Level::approximate && bounds_) return approximate(*values_);
    if (!same) return values_of_several();
    return encode({{most.need.spec, flat(type_, elements_)}}, most.need.reason);
  }

  Decision decide_exact(std::string_view reason) const {
    std::vector<Decision::Candidate> candidates = masks();
    for (const Holds holds :
         {Holds::flags, Holds::window_indices, Holds::integers, Holds::floats, Holds::anything}) {
      const auto it = std::ranges::find_if(uses_, [holds](const KnownUse& u) {
        const auto traits = codecs::codec_traits(u.need.spec.name);
        return u.need.level == Level::exact && traits && traits->holds == holds;
      });
      if (it == uses_.end()) continue;
      if (holds == Holds::anything) {
        candidates.push_back(raw());
      } else if (elements_ > 0 && holds == Holds::window_indices) {
        append_window_index(*it, candidates);
      } else if (elements_ > 0) {
        candidates.push_back(candidate(it->need.spec.name));
      }
    }
    if (!candidates.empty()) return encode(std::move(candidates), reason);
    return keep(mixed_types_ ? unusable_reason() : reason);
  }

  Decision decide_approximate() const {
    if (elements_ == 0) return keep(unusable_reason());
    const KnownUse* best = nullptr;
    bool bounded_angles = false, in_bits = false;
    if (compares() && !bounds_) return values_beside("a mask is read beside approximated values");
    for (const KnownUse& u : uses_) {
      if (u.need.level != Level::approximate) continue;
      const bool bounded = has_bound(u.need.spec);
      bounded_angles |= bounded && u.fact.kind == OperandKind::angle;
      in_bits |= !bounded;
      if (best == nullptr || precision(u.need.spec) > precision(best->need.spec)) best = &u;
    }
    // An angle's error may be as large as a small value that another use reads.
    if (bounded_angles && in_bits)
      return values_beside("an angle is read beside approximated values");
    return approximate(*best);
  }

  /// Encodes as `best` asks for.
  Decision approximate(const KnownUse& best) const {
    CodecSpec spec = best.need.spec;
    const codecs::CodecTraits traits = *codecs::codec_traits(spec.name);
    if (traits.fidelity != codecs::Fidelity::exact_signs) add_signs(spec);
    if (bounds_) {
      spec.with_bounds = true;
      spec.lower = bounds_->lower;
      spec.upper = bounds_->upper;
      spec.closed = bounds_->closed;
    }
    spec.floor = spec.with_sign || spec.with_bounds ? codecs::kNoFloor : floor_beside(best);
    spec.without_zero_rows = best.use->has_gaps && elements_ % codecs::kZeroRow == 0;
    PlaneLayout layout =
        traits.keeps_means ? layout_with_means(spec, best) : layout_of(traits.planes, spec, best);
    const bool chosen = best.need.chosen && description_.choice != nullptr;
    if (chosen && description_.choice->mixed_bits > 0) return mixed(spec, layout, best);
    auto careful = with_caution(std::move(spec), caution_);
    if (!careful) return lossless();
    if (has_code_for_zero(*careful, layout)) {
      careful->with_sign = false;
      careful->zero_code = true;
    }
    Decision::Candidate candidate = {std::move(*careful), {type_, layout, {1, 1, 1}}};
    if (chosen) candidate.channel_bounds = careful_bounds(layout);
    std::vector<Decision::Candidate> candidates = masks();
    candidates.push_back(std::move(candidate));
    return encode(std::move(candidates), best.need.reason);
  }

  /// `best`'s floor, as far as all others who read values allow it.
  float floor_beside(const KnownUse& best) const {
    float lowest = best.need.spec.floor;
    for (const KnownUse& u : uses_) {
      if (u.need.level != Level::approximate) continue;
      const bool has_floor = !u.use->is_recipes || u.use->is_argument;
      lowest = std::min(lowest, has_floor ? u.need.spec.floor : codecs::kNoFloor);
    }
    return lowest;
  }

  /// Whether uses read no more than an interval's mask.
  bool compares() const {
    return std::ranges::any_of(uses_,
                               [](const KnownUse& u) { return u.need.level == Level::interval; });
  }

  /// Sets the one interval whose bounds are all that uses compare with, where there is one: of
  /// (-inf, 7] and [-7, 7] the latter.
  void join_intervals() {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    codecs::IntervalBounds joined = {-infinity, infinity, true};
    bool fits = codecs::is_quantizable(type_);
    const auto join = [&fits](float& bound, float with, float none) {
      fits = fits && (with == none || bound == none || bound == with);
      if (with != none) bound = with;
    };
    bool is_first = true;
    for (const KnownUse& u : uses_) {
      if (u.need.level != Level::interval) continue;
      const CodecSpec& spec = u.need.spec;
      fits = fits && (is_first || joined.closed == spec.closed);
      joined.closed = spec.closed;
      is_first = false;
      join(joined.lower, spec.lower, -infinity);
      join(joined.upper, spec.upper, infinity);
    }
    if (fits && joined.is_interval()) bounds_ = joined;
  }

  /// Asks `spec` for the signs that uses read.
  void add_signs(CodecSpec& spec) const {
    const auto is_sign = [](const KnownUse& u) { return u.need.level == Level::sign; };
    const auto has_exact_sign = [](const KnownUse& u) {
      return u.need.level == Level::approximate && u.fact.exact_sign;
    };
    const auto may_be_negative = [&](const KnownUse& u) {
      const bool is_relu = functional_name(u.use->op) == "aten::relu";
      return is_sign(u) && !(is_relu && covers(u.geometry, elements_));
    };
    const bool agreeing = std::ranges::any_of(uses_, has_exact_sign);
    spec.with_sign = agreeing || std::ranges::any_of(uses_, is_sign);
    if (agreeing) {
      spec.signed_values = SignedValues::agreeing;
    } else if (std::ranges::any_of(uses_, may_be_negative)) {
      spec.signed_values = SignedValues::any;
    }
  }

  /// Whether codes can hold the signs that `spec` asks for (CodecSpec::zero_code) in place of a bit
  /// beside each. They then have one step less for values, which at 2 bits were half of them. On a
  /// device only contiguous planes have kernels for that.
  bool has_code_for_zero(const CodecSpec& spec, const PlaneLayout& layout) const {
    const bool non_negative = spec.with_sign && spec.signed_values == SignedValues::non_negative;
    return non_negative && spec.name == "group_quant" && spec.subtractive_dither &&
           spec.bits >= 3 && !spec.with_bounds && !spec.without_zero_rows &&
           type_ != ElementType::float64 && (!description_.on_device || layout.is_contiguous());
  }

  /// Encodes with bits by plane. Each caution doubles their average.
  Decision mixed(CodecSpec spec, const PlaneLayout& layout, const KnownUse& best) const {
    constexpr int most_bits = 8;
    const double bits = std::ldexp(description_.choice->mixed_bits, caution_);
    if (caution_ >= most_caution || (caution_ > 0 && bits >= 2 * most_bits)) return lossless();
    spec.bits = std::clamp(static_cast<int>(bits), 1, most_bits);
    Decision::Candidate candidate = {std::move(spec), {type_, layout, {1, 1, 1}}};
    candidate.mixed_bits = std::min(bits, double{most_bits});
    return encode({std::move(candidate)}, best.need.reason);
  }

  /// The choice's bounds by channel, divided by 4 for each caution; null where `layout` has another
  /// number of channels.
  std::shared_ptr<const std::vector<float>> careful_bounds(const PlaneLayout& layout) const {
    const auto& bounds = description_.choice->channel_bounds;
    if (!bounds || static_cast<std::int64_t>(bounds->size()) != layout.channels()) return nullptr;
    if (caution_ == 0) return bounds;
    auto smaller = *bounds;
    for (float& bound : smaller) bound = std::ldexp(bound, -2 * caution_);
    return std::make_shared<const std::vector<float>>(std::move(smaller));
  }

  /// DIVISION's layout. Planes whose means and parameters would cost too much become flat rows, for
  /// which `spec` gets at least 4 bits.
  PlaneLayout layout_with_means(CodecSpec& spec, const KnownUse& best) const {
    PlaneLayout layout = approximate_layout(best);
    const int most_bits = std::max(8, spec.bits + 2 + (spec.with_sign ? 1 : 0));
    if (division_bits_per_element(spec, layout) <= most_bits) return layout;
    const std::int64_t row = flat_row(elements_, flat_row_length);
    spec.bits = std::max(spec.bits, 4);
    spec.block = static_cast<int>(row <= exact_row_length ? row : flat_row_length);
    return PlaneLayout::rows(elements_, row);
  }

  /// For floats of which an interval's mask is read besides.
  Decision values_beside(std::string_view reason) const {
    return covers_floats_ ? lossless(reason) : keep(reason);
  }

  /// For floats of which the masks of several intervals are read.
  Decision values_of_several() const {
    constexpr std::string_view reason = "several masks are read of one storage";
    const bool is_exact = values_->need.level == Level::exact && !values_->need.spec.name.empty();
    return is_exact ? lossless(reason) : values_beside(reason);
  }

  /// Codec two_valued where a use may be a mask. It stops at the third distinct value.
  std::vector<Decision::Candidate> masks() const {
    const bool wanted = elements_ > 0 && std::ranges::any_of(uses_, [](const KnownUse& u) {
                          return u.need.may_be_mask;
                        });
    if (!wanted) return {};
    return {candidate("two_valued")};
  }

  /// For floats whose caution allows no approximation any more.
  Decision lossless(std::string_view reason = "no smaller when held losslessly") const {
    return encode({candidate(codecs::kLosslessFloats)}, reason);
  }

  static bool has_bound(const CodecSpec& spec) {
    return codecs::codec_traits(spec.name)->precision == codecs::Precision::error_bound;
  }

  /// Orders the codecs that several uses ask for; the greatest wins. An error bound is greater than
  /// any bits; then a tighter bound, or more bits and a smaller block, is greater. Of the data that
  /// have them, roots are worth a bit and a half.
  static std::array<double, 3> precision(const CodecSpec& spec) {
    if (has_bound(spec)) return {1.0, -double{spec.error_bound}, 0.0};
    return {0.0, spec.bits + (spec.roots ? 1.5 : 0.0), -double(spec.block)};
  }

  /// @param spec Gets other groups where features make these whole
  PlaneLayout layout_of(Planes planes, CodecSpec& spec, const KnownUse& best) const {
    if (planes == Planes::samples) {
      const auto rank = static_cast<int>(best.geometry.sizes.size());
      const bool whole = best.fact.spatial && covers(best.geometry, elements_);
      if (const auto samples = whole ? plane_layout(best.geometry, rank - 1) : std::nullopt) {
        return *samples;
      }
      const auto apart = features_differ() ? features_apart(best.geometry, elements_, spec.group,
                                                            description_.on_device)
                                           : std::nullopt;
      if (!apart) return flat(type_, elements_).layout;
      spec.group = static_cast<int>(apart->extent[2]);
      return *apart;
    }
    PlaneLayout layout = approximate_layout(best);
    // A row's features are the channels of a linear layer's input.
    if (planes == Planes::channels && layout.extent[0] * layout.extent[1] == 1 &&
        layout.inner == 1) {
      const std::int64_t features = layout.extent[2];
      layout = {};
      layout.outer = elements_ / features;
      layout.inner = features;
      layout.outer_stride = features;
      layout.inner_stride = 1;
    }
    return layout;
  }

  /// Whether features differ in scale more than rows do.
  bool features_differ() const {
    return std::ranges::all_of(uses_, [](const KnownUse& u) {
      return u.need.level != Level::approximate || u.fact.is_heads || u.use->is_linear_output;
    });
  }

  PlaneLayout approximate_layout(const KnownUse& best) const {
    if (best.fact.spatial) {
      for (const Geometry* geometry : {&best.geometry, &description_.cover}) {
        if (geometry->sizes.empty() || !covers(*geometry, elements_)) continue;
        if (const auto planes = plane_layout(*geometry, best.fact.plane_rank)) return *planes;
      }
    }
    // Rows that no use cuts: heads, where a fused projection holds several.
    std::int64_t row = 0;
    for (const KnownUse& u : uses_) {
      if (u.need.level == Level::approximate) row = std::gcd(row, row_length(u.geometry));
    }
    const bool usable = row >= shortest_row || row == elements_;
    if (!usable || elements_ % row != 0) row = flat_row(elements_, flat_row_length);
    if (holds_heads()) row = joined(row);
    return PlaneLayout::rows(elements_, row);
  }

  /// Whether a use has attention's shape (sample, head, token, feature), whose rows are short.
  bool holds_heads() const {
    return std::ranges::any_of(uses_, [](const KnownUse& u) {
      return u.need.level == Level::approximate && u.use->geometry.sizes.size() == 4;
    });
  }

  /// Joins neighbouring rows up to 256 elements, ActNN's group. One row for each head would spend
  /// half a bit an element on zero points and steps, and most of the time.
  std::int64_t joined(std::int64_t row) const {
    while (2 * row <= flat_row_length && elements_ % (2 * row) == 0) row *= 2;
    return row;
  }

  void append_window_index(const KnownUse& u, std::vector<Decision::Candidate>& to) const {
    if (!covers(u.geometry, elements_)) return;
    const auto planes = plane_layout(u.geometry, u.fact.plane_rank);
    if (!planes) return;
    CodecSpec spec;
    spec.name = "window_index";
    to.push_back({std::move(spec), {type_, *planes, u.use->index_extent}});
  }

  /// `codec` over the storage as one run of elements.
  Decision::Candidate candidate(std::string_view codec) const {
    CodecSpec spec;
    spec.name = codec;
    return {std::move(spec), flat(type_, elements_)};
  }

  Decision::Candidate raw() const {
    CodecSpec spec;
    spec.name = "raw";
    // The type `other` counts bytes.
    return {std::move(spec),
            elements_ > 0 ? flat(type_, elements_) : flat(ElementType::other, bytes_)};
  }

  static Description flat(ElementType type, std::int64_t count) {
    return {type, PlaneLayout::rows(count, flat_row(count, exact_row_length)), {1, 1, 1}};
  }

  static Decision encode(std::vector<Decision::Candidate> candidates, std::string_view reason) {
    return {
        .action = Decision::Action::encode, .reason = reason, .candidates = std::move(candidates)};
  }

  const EntryDescription& description_;
  int caution_;
  bool covers_floats_;  // see Settings::others
  std::int64_t bytes_;
  std::deque<Pairs> pairs_;  // what geometries of uses_ point into
  std::vector<KnownUse> uses_;
  /// What uses that compare with an interval get where no mask serves (add_values()).
  std::optional<KnownUse> values_;
  /// The one interval that uses compare with (join_intervals()); none: there is none, or several.
  std::optional<codecs::IntervalBounds> bounds_;
  ElementType type_ = ElementType::other;
  bool mixed_types_ = false;
  std::int64_t elements_ = 0;  ///< 0 when the storage is no whole number of elements of one type
};

}  // namespace

Policy::Policy(Settings settings) : settings_(std::move(settings)) {}

bool Policy::enabled() const noexcept {
  const Algorithm& algorithm = algorithm_of(settings_);
  if (algorithm.idle) return settings_.rescue.enabled;
  return algorithm.does_nothing == nullptr || !algorithm.does_nothing(settings_);
}

Decision Policy::decide(const EntryDescription& entry, int caution) const {
  if (!enabled()) return keep("the policy is off");
  if (entry.uses.empty() || entry.storage_bytes == 0) return keep("nothing to encode");
  try {
    Decision decision = Entry(settings_, entry, caution).decide();
    const bool chosen = entry.choice != nullptr && entry.choice->offload;
    decision.offload = offload_of(settings_, entry.uses, chosen);
    return decision;
  } catch (const std::exception&) {
    return keep("out of memory while deciding");
  }
}

}  // namespace cinch::policy
