// SPDX-License-Identifier: Apache-2.0
#include "policy/advising/explain.h"

#include "policy/algorithms/algorithm.h"

namespace cinch::policy {
namespace {

std::string treatment_words(const Treatment& treatment) {
  return treatment.keep ? "stay as they are" : "are held by " + codec_in_words(treatment.codec);
}

std::string rule_words(const Rule& rule) {
  std::string text = "  - " + rule.op;
  if (rule.operand != "*") text += " " + rule.operand;
  if (rule.dtype) text += ", " + std::string(name_of(*rule.dtype));
  if (rule.recomputed) text += *rule.recomputed ? ", recomputed" : ", not recomputed";
  if (rule.linear_output) {
    text += *rule.linear_output ? ", of a linear layer" : ", of no linear layer";
  }
  if (!rule.shape.empty()) {
    text += ", shape";
    for (const std::string& dimension : rule.shape) text += " " + dimension;
  }
  text += ": " + (rule.keep ? "stays as it is" : codec_in_words(*rule.codec));
  if (rule.offload) {
    text += *rule.offload ? "; from a GPU it goes to the host's memory" : "; never leaves a GPU";
  }
  return text + "\n";
}

std::string offload_words(const OffloadSettings& o) {
  if (!o.enabled && !o.rescue) return "";
  const std::string most = o.host_bytes == 0
                               ? "half of what the host has available"
                               : number_in_words(static_cast<double>(o.host_bytes) / (1 << 20)) +
                                     " MiB of the host's memory";
  return std::string("What is held of CUDA tensors in ") + std::to_string(o.min_bytes) +
         " bytes or more moves to page-locked memory, at most " + most + ", " +
         (o.enabled ? "the oldest first, and comes back ahead of backward"
                    : "when a GPU is out of memory and encoding early was not enough") +
         ".\n";
}

}  // namespace

std::string codec_in_words(const codecs::CodecSpec& spec) {
  const auto traits = codecs::codec_traits(spec.name);
  if (traits && traits->precision == codecs::Precision::error_bound) {
    return spec.name + " within " + number_in_words(double{spec.error_bound});
  }
  if (!traits || traits->precision != codecs::Precision::bits) return spec.name;
  std::string text = spec.name + " at " + std::to_string(spec.bits) + " bits";
  int group = traits->shares_ranges ? spec.group : 0;
  if (traits->keeps_means) {
    text += " in blocks of " + std::to_string(spec.block);
    group = spec.residual_group;
  }
  if (group > 0)
    text += (traits->keeps_means ? " and groups of " : " in groups of ") + std::to_string(group);
  if (traits->keeps_means && !spec.edge_ceil) text += ", edges as in the paper";
  if (spec.subtractive_dither) text += ", dithered";
  if (spec.roots) text += ", of square roots";
  if (spec.floor != codecs::kNoFloor)
    text += ", from " + number_in_words(double{spec.floor}) + " on";
  return text;
}

std::string rules_in_words(const Settings& s) {
  std::string text;
  auto from = Rule::From::file;
  for (const Rule& rule : s.rules) {
    if (rule.from != from && rule.from == Rule::From::preset) {
      text += "  of the preset " + s.policy + ":\n";
    } else if (rule.from != from) {
      text += "  of the preset default, but for the bits, where a plan decides about these:\n";
    }
    from = rule.from;
    text += rule_words(rule);
  }
  return text;
}

std::string explain(const Settings& s) {
  if (algorithm_of(s).idle && s.rescue.enabled) {
    return "Cinch takes nothing until memory runs out: then what is saved is compressed without "
           "loss" +
           std::string(s.rescue.harder ? ", after that as the preset division does it" : "") +
           (s.offload.rescue ? ", and moved to the host's memory.\n" : ".\n");
  }
  if (algorithm_of(s).idle) {
    return std::string("Cinch takes nothing") +
           (s.allocator_host ? "; large CPU tensors come from its allocator.\n" : ".\n");
  }
  std::string text = algorithm_of(s).words(s) + "\n";
  if (!s.rules.empty()) {
    text += "Before that, the first of these rules that matches decides:\n" + rules_in_words(s);
  }
  text +=
      "Signs, masks, pooling indices, statistics, log-sum-exp, losses and weights are exact "
      "whatever a rule says.\n";
  const bool by_facts = s.compiled_by_facts && !s.others.keep;
  text += by_facts ? "Floats of compiled regions are held as those of the operators that backward "
                     "reads them for; where that is not known they "
                   : "Floats of compiled regions ";
  text += treatment_words(s.compiled) + "; those of custom autograd Functions " +
          treatment_words(s.functions) + ".\n";
  if (!s.others.keep) {
    text += "Other floats that tolerate approximation " + treatment_words(s.others) +
            (s.others_from_preset ? ", as in the preset " + s.policy : "") +
            "; all remaining floats are compressed without loss.\n";
  }
  if (s.derive.enabled) {
    text += "Results of norms, activation functions, products and sums";
    if (s.derive.attention) text += ", and fused attention's with its log-sum-exp,";
    text += " are computed anew in backward from what else is held, where that gives their bits.\n";
    if (s.derive.signs_in_sources) {
      text += "A ReLU's signs are one bit of what the batch norm before it reads.\n";
    }
  }
  text += "Storages below " + std::to_string(s.min_bytes) + " bytes are left to PyTorch.\n";
  if (s.guard.every_steps == 0) {
    text += "Nothing watches what compression does.\n";
  } else {
    text += "Every " + std::to_string(s.guard.every_steps) +
            " steps the guard compares a sample with exact values: above a relative error of " +
            number_in_words(s.guard.max_relative_error) + " (values) or " +
            number_in_words(s.guard.max_gradient_error) +
            " (gradients) a layer is held more precisely.\n";
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
