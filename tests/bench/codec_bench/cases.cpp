// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/codec_bench/cases.h"

#include <cstdio>
#include <utility>

#include "tests/bench/codec_bench/opponents.h"
#include "tests/bench/codec_bench/random_sources.h"

namespace cinch::bench {
namespace {

using codecs::CodecSpec;
using codecs::ElementType;

// A contender for each line of the tables below. Bounds are fractions of the data's root mean
// square.

Contender cinch(std::string name, const CodecSpec& spec) {
  return {std::move(name), 0, [spec](double) { return make_cinch(spec); }};
}

Contender with_bits(const std::string& name, CodecSpec spec, int bits) {
  spec.bits = bits;
  return cinch(name + "_b" + std::to_string(bits), spec);
}

std::string with_bound_name(const std::string& name, double bound) {
  char text[16];
  std::snprintf(text, sizeof text, "%g", bound);
  return name + "_e" + text;
}

Contender with_bound(const std::string& name, double bound) {
  return {with_bound_name(name, bound), bound, [name](double absolute) {
            return make_cinch({.name = name, .error_bound = static_cast<float>(absolute)});
          }};
}

Contender raw() {
  return cinch("raw", {.name = "raw"});
}
Contender sign() {
  return cinch("sign", {.name = "sign"});
}
Contender two_valued() {
  return cinch("two_valued", {.name = "two_valued"});
}
Contender window_index() {
  return cinch("window_index", {.name = "window_index"});
}
Contender narrow() {
  return cinch("narrow", {.name = "narrow"});
}
Contender exponent_pack() {
  return cinch("exponent_pack", {.name = "exponent_pack"});
}
Contender interval() {
  return cinch("interval", {.name = "interval", .lower = -1, .upper = 1});
}
Contender division(int bits) {
  return with_bits("division", {.name = "division"}, bits);
}
Contender division_with_sign(int bits) {
  return with_bits("division_sign", {.name = "division", .with_sign = true}, bits);
}
/// A sample's channels as one plane, which is what ActNN cuts into groups.
codecs::Description as_samples(const codecs::Description& of) {
  codecs::Description what = of;
  codecs::PlaneLayout& layout = what.layout;
  if (layout.inner == 1 || layout.extent[0] != 1) return what;
  layout.extent[0] = std::exchange(layout.inner, 1);
  layout.stride[0] = std::exchange(layout.inner_stride, 0);
  return what;
}

Contender group_quant(int bits, int group = 256) {
  const std::string name = group == 256 ? "group_quant" : "group_quant_g" + std::to_string(group);
  Contender contender = with_bits(name, {.name = "group_quant", .group = group}, bits);
  contender.view = as_samples;
  return contender;
}
Contender group_quant_dithered(int bits) {
  const CodecSpec spec = {.name = "group_quant", .subtractive_dither = true};
  Contender contender = with_bits("group_quant_dithered", spec, bits);
  contender.view = as_samples;
  return contender;
}
Contender group_quant_roots(int bits) {
  const CodecSpec spec = {.name = "group_quant", .subtractive_dither = true, .roots = true};
  Contender contender = with_bits("group_quant_roots", spec, bits);
  contender.view = as_samples;
  return contender;
}
/// With signs, within the codes or a bit beside each.
Contender group_quant_with_signs(int bits, bool within) {
  const CodecSpec spec = {
      .name = "group_quant", .subtractive_dither = true, .zero_code = within, .with_sign = !within};
  Contender contender =
      with_bits(within ? "group_quant_zero_code" : "group_quant_with_sign", spec, bits);
  contender.view = as_samples;
  return contender;
}
/// Samples of which each channel has numbers for two_sided.
codecs::Description normalized_samples(const codecs::Description& of) {
  static const std::vector<float> ones(1 << 16, 1.0F), zeros(1 << 16, 0.0F);
  codecs::Description what = as_samples(of);
  const codecs::PlaneLayout& layout = what.layout;
  if (layout.extent[0] > static_cast<std::int64_t>(ones.size())) return what;
  what.sides = {ones.data(), zeros.data(), zeros.data(), ones.data(),
                layout.extent[1] * layout.extent[2]};
  return what;
}
Contender two_sided(int bits, bool dithered = false) {
  const CodecSpec spec = {.name = "two_sided", .subtractive_dither = dithered};
  Contender contender = with_bits(dithered ? "two_sided_dithered" : "two_sided", spec, bits);
  contender.view = normalized_samples;
  return contender;
}
Contender blpa(int bits) {
  return with_bits("blpa", {.name = "blpa"}, bits);
}
Contender error_bounded_ratio(double bound) {
  return with_bound("error_bounded_ratio", bound);
}
Contender fixed_point(double bound) {
  return with_bound("fixed_point", bound);
}
Contender dct(double bound) {
  return with_bound("dct", bound);
}

Contender zfp_rate(int bits) {
  return {"zfp_rate_b" + std::to_string(bits), 0, [bits](double) { return make_zfp_rate(bits); }};
}
Contender zfp_accuracy(double bound) {
  return {with_bound_name("zfp_accuracy", bound), bound, make_zfp_accuracy};
}
Contender zstd() {
  return {"zstd_1", 0, [](double) { return make_zstd(1); }};
}
Contender lz4() {
  return {"lz4", 0, [](double) { return make_lz4(); }};
}

/// `first`, and what holds any values: within a bound, or exactly.
std::vector<Contender> with_bounded_and_exact(std::vector<Contender> first) {
  const std::vector<Contender> others = {
      error_bounded_ratio(0.1), fixed_point(0.1), dct(0.1), zfp_accuracy(0.1),
      exponent_pack(),          zstd(),           lz4()};
  first.insert(first.end(), others.begin(), others.end());
  return first;
}

}  // namespace

std::vector<Group> random_groups(std::int64_t bytes) {
  constexpr ElementType f32 = ElementType::float32;
  constexpr ElementType bf16 = ElementType::bfloat16;
  constexpr ElementType f16 = ElementType::float16;
  constexpr ElementType boolean = ElementType::boolean;
  constexpr ElementType int64 = ElementType::int64;
  const std::vector<Contender> shape = {division(2), group_quant(2), blpa(4),
                                        error_bounded_ratio(0.1), fixed_point(0.1)};
  const std::vector<Contender> lossless = {two_valued(), zstd(), lz4()};
  return {
      {normal("f32_7x7", planes(f32, 7, 7, bytes)), shape},
      {normal("f32_14x14", planes(f32, 14, 14, bytes)), shape},
      {normal("f32_28x28", planes(f32, 28, 28, bytes)), shape},
      {normal("f32_56x56", planes(f32, 56, 56, bytes)),
       {raw(),
        division(2),
        division(4),
        division(8),
        group_quant(1),
        group_quant(2),
        group_quant(3),
        group_quant(4),
        group_quant(8),
        group_quant_dithered(4),
        two_sided(4),
        two_sided(4, true),
        blpa(4),
        blpa(8),
        zfp_rate(2),
        zfp_rate(4),
        zfp_rate(8),
        error_bounded_ratio(0.1),
        fixed_point(0.1),
        dct(0.1),
        zfp_accuracy(0.1),
        error_bounded_ratio(0.01),
        fixed_point(0.01),
        dct(0.01),
        zfp_accuracy(0.01),
        exponent_pack(),
        zstd(),
        lz4()}},
      {normal("f32_112x112", planes(f32, 112, 112, bytes)), shape},
      {normal("f32_56x56_channels_last", planes(f32, 56, 56, bytes, true)), shape},
      {normal("bf16_56x56", planes(bf16, 56, 56, bytes)),
       {division(2), group_quant(2), two_sided(4), blpa(4), error_bounded_ratio(0.1),
        fixed_point(0.1), exponent_pack(), zstd(), lz4()}},
      {normal("f16_56x56", planes(f16, 56, 56, bytes)), shape},
      {normal("f32_row256", rows(f32, 256, bytes)), {division(2), group_quant(2)}},
      {normal("f32_row768", rows(f32, 768, bytes)),
       {division(2), division(4), group_quant(2), group_quant(4), group_quant(2, 64),
        group_quant_dithered(3), group_quant_dithered(4), group_quant_roots(3)}},
      {normal("f32_row3072", rows(f32, 3072, bytes)), {division(2), group_quant(2)}},
      {normal("bf16_row768", rows(bf16, 768, bytes)),
       {division(2), group_quant(2), group_quant_dithered(3), group_quant_roots(3)}},
      {normal("f32_features768", features(f32, 768, bytes)),
       {group_quant(4), group_quant_dithered(3), group_quant_dithered(4)}},
      {normal("f32_features64", features(f32, 64, bytes)), {group_quant_dithered(4)}},
      {normal("f32_features3072", features(f32, 3072, bytes)), {group_quant_dithered(3)}},
      {normal("bf16_features768", features(bf16, 768, bytes)), {group_quant_dithered(4)}},
      {normal("f32_row4096", rows(f32, 4096, bytes)), {sign(), interval()}},
      {normal("bf16_row4096", rows(bf16, 4096, bytes)), {sign(), interval()}},
      {rectified("f32_relu_56x56", planes(f32, 56, 56, bytes)),
       {sign(), division_with_sign(2), group_quant_with_signs(3, true),
        group_quant_with_signs(3, false), fixed_point(0.1), error_bounded_ratio(0.1),
        zfp_accuracy(0.1), zstd(), lz4()}},
      {rectified("bf16_relu_56x56", planes(bf16, 56, 56, bytes)),
       {group_quant_with_signs(3, true), group_quant_with_signs(3, false)}},
      {rectified("f32_relu_features768", features(f32, 768, bytes)),
       {group_quant_with_signs(3, true), group_quant_with_signs(3, false)}},
      {dropout("f32_dropout_row4096", rows(f32, 4096, bytes)), lossless},
      {dropout("bool_dropout_row4096", rows(boolean, 4096, bytes)), lossless},
      {pool_indices("int64_pool_56x56", planes(int64, 56, 56, bytes)),
       {window_index(), narrow(), zstd(), lz4()}},
      {tokens("int64_tokens_row4096", rows(int64, 4096, bytes)), {narrow(), zstd(), lz4()}},
  };
}

std::vector<Contender> contenders_for(std::string_view kind) {
  if (kind == "values") {
    return with_bounded_and_exact(
        {division(2), group_quant(2), group_quant(4), blpa(4), zfp_rate(2), zfp_rate(4)});
  }
  if (kind == "nonnegative") {
    return with_bounded_and_exact({division_with_sign(2), group_quant(2), group_quant(4)});
  }
  if (kind == "attention") {
    return {group_quant(4), group_quant(8), error_bounded_ratio(0.01), zfp_rate(4),
            zfp_accuracy(0.01)};
  }
  if (kind == "relu") return {sign(), zstd(), lz4()};
  if (kind == "mask") return {two_valued(), zstd(), lz4()};
  if (kind == "index") return {window_index(), narrow(), zstd(), lz4()};
  return {};
}

}  // namespace cinch::bench
