// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdio>

#include "policy/algorithms/lines.h"

namespace cinch::policy {
namespace {

constexpr std::array kAlgorithms = {
    Algorithm{.name = "default",
              .words = default_words,
              .codec = default_codec,
              .derives = true,
              .signs_in_sources = true},
    Algorithm{.name = "division", .words = division_words, .codec = division_codec},
    Algorithm{.name = "actnn",
              .words = actnn_words,
              .read = read_actnn,
              .fault = actnn_fault,
              .director = make_actnn_director,
              .does_nothing = is_level_0},
    Algorithm{.name = "blpa", .words = blpa_words, .read = read_blpa, .codec = blpa_codec},
    Algorithm{.name = "acgc",
              .words = acgc_words,
              .read = read_acgc,
              .fault = acgc_fault,
              .director = make_acgc_director},
    Algorithm{
        .name = "comet", .words = comet_words, .read = read_comet, .director = make_comet_director},
    Algorithm{.name = "budget",
              .words = budget_words,
              .read = read_budget,
              .fault = budget_fault,
              .director = make_budget_director,
              .derives = true,
              .takes_advice = true},
    Algorithm{.name = "lossless", .words = lossless_words, .exact = true, .derives = true},
    Algorithm{.name = "off", .words = lossless_words, .exact = true, .idle = true},
};

}  // namespace

std::span<const Algorithm> algorithms() noexcept {
  return kAlgorithms;
}

const Algorithm& algorithm_of(const Settings& settings) noexcept {
  const auto found = std::ranges::find(kAlgorithms, settings.policy, &Algorithm::name);
  return found == kAlgorithms.end() ? kAlgorithms.back() : *found;
}

std::unique_ptr<Director> make_director(const Settings& settings) {
  const auto make = algorithm_of(settings).director;
  return make == nullptr ? nullptr : make(settings);
}

bool keeps_all_exact(const Settings& settings) noexcept {
  const Algorithm& algorithm = algorithm_of(settings);
  return algorithm.exact && !algorithm.idle;
}

std::string number_in_words(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace cinch::policy
