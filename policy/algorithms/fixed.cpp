// SPDX-License-Identifier: Apache-2.0
// The algorithms that never adapt: the default, which is groups of equal bits, DIVISION (Wang et
// al., ICML 2023), BLPA (Chakrabarti & Moseley, NeurIPS 2019), lossless, and off.
#include "policy/algorithms/lines.h"

namespace cinch::policy {

std::string default_words(const Settings& settings) {
  return "Inputs of convolutions, linear layers and batch norms are held at " +
         std::to_string(settings.groups.bits) + " bits in groups of " +
         std::to_string(settings.groups.group) + " elements" +
         (settings.groups.subtractive_dither ? ", with subtractive dithering." : ".");
}

codecs::CodecSpec default_codec(const Settings& settings) {
  return settings.groups;
}

std::string division_words(const Settings& settings) {
  const codecs::CodecSpec& spec = settings.division;
  const bool groups = spec.residual_group > 0;
  return "DIVISION: inputs of convolutions, linear layers and batch norms are held as bfloat16 "
         "means of blocks of " +
         std::to_string(spec.block) + " and residuals of " + std::to_string(spec.bits) + " bits" +
         (groups ? " in groups of " + std::to_string(spec.residual_group) + " elements" : "") +
         (spec.subtractive_dither ? ", with subtractive dithering." : ".");
}

codecs::CodecSpec division_codec(const Settings& settings) {
  return settings.division;
}

std::string blpa_words(const Settings& settings) {
  return "BLPA: inputs of convolutions, linear layers and batch norms are held at " +
         std::to_string(settings.blpa_bits) +
         " bits on a fixed grid around each channel's mean, 3 standard deviations wide on either "
         "side. Other activations stay as they are.";
}

codecs::CodecSpec blpa_codec(const Settings& settings) {
  codecs::CodecSpec spec;
  spec.name = "blpa";
  spec.bits = settings.blpa_bits;
  return spec;
}

std::string lossless_words(const Settings& /*settings*/) {
  return "Nothing is approximated: masks, indices and floats are compressed losslessly where "
         "that makes them smaller.";
}

}  // namespace cinch::policy
