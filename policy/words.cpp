// SPDX-License-Identifier: Apache-2.0
#include "policy/words.h"

#include <cstdio>
#include <map>
#include <vector>

namespace cinch::policy {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string codec_words(const codecs::CodecSpec& spec) {
  const auto traits = codecs::codec_traits(spec.name);
  if (traits && traits->precision == codecs::Precision::bits) {
    return spec.name + " at " + std::to_string(spec.bits) + " bits";
  }
  if (traits && traits->precision == codecs::Precision::error_bound) {
    return spec.name + " within " + number(double{spec.error_bound});
  }
  return spec.name;
}

std::string treatment_words(const Treatment& treatment) {
  return treatment.keep ? "stay as they are" : "are held by " + codec_words(treatment.codec);
}

std::string actnn_words(const ActnnSettings& a) {
  switch (a.level) {
    case 0:
      return "ActNN's level L0: nothing is compressed.";
    case 1:
      return "ActNN's level L1: inputs of convolutions are held in groups of " +
             std::to_string(a.group) + " elements at " + std::to_string(a.fixed_bits) +
             " bits; all other activations stay as they are.";
    case 2:
      return "ActNN's level L2: all activations are held in groups of " + std::to_string(a.group) +
             " elements at " + std::to_string(a.fixed_bits) + " bits.";
    default:
      return "ActNN's level L" + std::to_string(a.level) +
             ": inputs of convolutions and linear layers share an average of " + number(a.bits) +
             " bits an element, more where gradients and ranges are large, by layer and by sample; "
             "a batch norm gets the bits of the convolution before it. The first step uses 8 bits; "
             "bits are allocated anew every " +
             std::to_string(a.every_steps) +
             " steps. Attention and smooth activation functions never get fewer than 4." +
             (a.level < 4 ? ""
              : a.level == 4
                  ? " From GPUs what is held moves to the host's memory."
                  : " From GPUs what is held moves to the host's memory, and Cinch's allocator "
                    "stitches what fragmentation would lose.");
  }
}

std::string acgc_words(const AcgcSettings& a) {
  const std::map<AcgcSettings::Codec, std::string> codecs = {
      {AcgcSettings::Codec::quant, "fixed point by channel"},
      {AcgcSettings::Codec::quant_z, "fixed point by channel, zeros apart"},
      {AcgcSettings::Codec::cusz, "prediction and Huffman"},
      {AcgcSettings::Codec::jpeg, "DCT"},
      {AcgcSettings::Codec::jpeg_z, "DCT, zeros apart"}};
  return "AC-GC: inputs of convolutions, linear layers, batch and layer norms are held by " +
         codecs.at(a.codec) + " within error bounds that let gradient variance grow by at most " +
         number(100 * a.e2) + " %" +
         (a.expected ? " in expectation" : ", guaranteed by Cauchy and Schwarz") +
         ". The first step is not compressed; gradients are looked at every " +
         std::to_string(a.every_steps) + " steps, and the mean of the last " +
         std::to_string(a.window) +
         " looks is used. What AC-GC has no bound for stays as it is, unless a rule says "
         "otherwise.";
}

std::string comet_words(const CometSettings& c) {
  return "COMET: inputs of convolutions are held by error_bounded_ratio within a bound that gives "
         "each weight's gradient an error of " +
         number(100 * c.fraction) + " % of its mean momentum" +
         (c.paper_mode ? " by the paper's Eqs. 3, 10 and 11 (a = " + number(c.a) + ")" : "") +
         ". The first " + std::to_string(c.every_steps) +
         " steps are not compressed; bounds are refreshed every " + std::to_string(c.every_steps) +
         " steps, more often while they move by more than a factor of 2, from gradients averaged "
         "over " +
         std::to_string(c.momentum_steps) +
         " steps. Other activations stay as they are, unless a rule says otherwise." +
         (c.evacuate_below > 0 ? " CUDA tensors that get less than " + number(c.evacuate_below) +
                                     " times smaller move to the host's memory."
                               : "");
}

std::string budget_words(const BudgetSettings& b) {
  const std::string target =
      b.peak_bytes != 0
          ? "at most " + number(static_cast<double>(b.peak_bytes) / (1 << 20)) + " MiB"
          : "1/" + number(b.ratio) + " of the bytes that they would take";
  return "A budget: activations are held in " + target +
         " with the least variance of the weights' gradients. Layers are tried in turn, first all "
         "in "
         "the steps after the first and then every " +
         std::to_string(b.every_steps) +
         " steps a few of them: their backward is run on what a few bits would give, and the "
         "difference counts. "
         "Among 1 to 8 bits, DIVISION, lossless, raw, of host tensors error bounds" +
         std::string(b.offload ? " and, of CUDA tensors, the host's memory" : "") +
         " a knapsack is solved at step boundaries, "
         "and a new plan is taken when it is clearly better. If the budget can't be met, one line "
         "says so, and what could be. A second of encoding and decoding counts like " +
         number(b.variance_per_second) + " of relative variance.";
}

std::string auto_words(const BudgetSettings& b) {
  return "Automatic: activations take the fewest bytes that add at most " + number(100 * b.noise) +
         " % to the variance that mini-batches give the gradients anyway. Starts at 4 bits, tries "
         "layers in turn, and decides anew every " +
         std::to_string(b.every_steps) + " steps.";
}

std::string algorithm_words(const Settings& s) {
  if (s.policy == "actnn") return actnn_words(s.actnn);
  if (s.policy == "acgc") return acgc_words(s.acgc);
  if (s.policy == "comet") return comet_words(s.comet);
  if (s.policy == "budget") return budget_words(s.budget);
  if (s.policy == "auto") return auto_words(s.budget);
  if (s.policy == "blpa") {
    return "BLPA: inputs of convolutions, linear layers and batch norms are held at " +
           std::to_string(s.blpa_bits) +
           " bits on a fixed grid around each channel's mean, 3 standard deviations wide on either "
           "side. Other activations stay as they are.";
  }
  if (s.policy == "lossless") {
    return "Nothing is approximated: masks, indices and floats are compressed losslessly where "
           "that makes them smaller.";
  }
  return "DIVISION: inputs of convolutions, linear layers and batch norms are held as bfloat16 "
         "means of blocks of " +
         std::to_string(s.division.block) + " and residuals of " + std::to_string(s.division.bits) +
         " bits.";
}

std::string rule_words(const Rule& rule) {
  std::string text = "  - " + rule.op;
  if (rule.operand != "*") text += " " + rule.operand;
  if (rule.type) text += ", " + std::string(codecs::type_name(*rule.type));
  if (!rule.shape.empty()) {
    text += ", shape";
    for (const std::string& dimension : rule.shape) text += " " + dimension;
  }
  text += ": " + (rule.keep ? "stays as it is" : codec_words(*rule.codec));
  if (rule.offload) {
    text += *rule.offload ? "; from a GPU it goes to the host's memory" : "; never leaves a GPU";
  }
  return text + "\n";
}

std::string offload_words(const OffloadSettings& o) {
  if (!o.enabled && !o.rescue) return "";
  const std::string most =
      o.host_bytes == 0
          ? "half of what the host has available"
          : number(static_cast<double>(o.host_bytes) / (1 << 20)) + " MiB of the host's memory";
  return std::string("What is held of CUDA tensors in ") + std::to_string(o.min_bytes) +
         " bytes or more moves to page-locked memory, at most " + most + ", " +
         (o.enabled ? "the oldest first, and comes back ahead of backward"
                    : "when a GPU is out of memory and encoding early was not enough") +
         ".\n";
}

}  // namespace

std::string in_words(const Settings& s) {
  if (s.policy == "off" && s.rescue.enabled) {
    return "Cinch takes nothing until memory runs out: then what is saved is compressed without "
           "loss" +
           std::string(s.rescue.harder ? ", after that as the preset division does it" : "") +
           (s.offload.rescue ? ", and moved to the host's memory.\n" : ".\n");
  }
  if (s.policy == "off") {
    return std::string("Cinch takes nothing") +
           (s.allocator_host ? "; large CPU tensors come from its allocator.\n" : ".\n");
  }
  std::string text = algorithm_words(s) + "\n";
  if (!s.rules.empty()) {
    text += "Before that, the first of these rules that matches decides:\n";
    for (const Rule& rule : s.rules) text += rule_words(rule);
  }
  text +=
      "Signs, masks, pooling indices, statistics, log-sum-exp, losses and weights are exact "
      "whatever a rule says.\n";
  text += "Floats of compiled regions " + treatment_words(s.compiled) +
          "; those of custom autograd Functions " + treatment_words(s.functions) + ".\n";
  text += "Storages below " + std::to_string(s.min_bytes) + " bytes are left to PyTorch.\n";
  if (s.guard.every_steps == 0) {
    text += "Nothing watches what compression does.\n";
  } else {
    text += "Every " + std::to_string(s.guard.every_steps) +
            " steps the guard compares a sample with exact values: above a relative error of " +
            number(s.guard.max_relative_error) + " (values) or " +
            number(s.guard.max_gradient_error) + " (gradients) a layer is held more precisely.\n";
  }
  text += offload_words(s.offload);
  text += s.stream == Stream::side
              ? "Encoding and decoding run on a thread of Cinch's; results do not change.\n"
              : "Encoding and decoding run in the program's threads.\n";
  if (!s.state_file.empty()) {
    text += "What it learns is kept in " + s.state_file + ", where the next run takes it up.\n";
  }
  return text + "The same seed (" + std::to_string(s.seed) + ") gives the same results.\n";
}

}  // namespace cinch::policy
