// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "policy/adapting/director.h"

namespace cinch::policy {

/// Settings of a policy by name.
inline Settings with(std::string policy) {
  Settings settings;
  settings.policy = std::move(policy);
  settings.division.name = "division";
  return settings;
}

/// Adds `layer` with its menu and what each item takes, as the stash makes it.
inline std::uint32_t add(Director& director, Layer layer, std::size_t raw = 1 << 20,
                         std::int64_t planes = 8) {
  layer.raw_bytes = raw;
  layer.elements = static_cast<std::int64_t>(raw / 4);
  layer.planes = planes;
  layer.channels = 4;
  layer.menu = director.menu(layer);
  for (const Choice& choice : layer.menu) {
    const bool encodes = choice.action == Choice::Action::encode;
    layer.menu_bytes.push_back(encodes ? raw * static_cast<std::size_t>(choice.spec.bits) / 32
                                       : raw);
  }
  return director.add(std::move(layer));
}

inline std::uint32_t add(Director& director, LayerKind kind, std::size_t raw = 1 << 20,
                         std::int64_t planes = 8, bool on_device = false) {
  Layer layer;
  layer.kind = kind;
  layer.on_device = on_device;
  return add(director, std::move(layer), raw, planes);
}

inline Look look(LayerKind kind, double output_gradient, double weight_gradient = 1) {
  Look look;
  look.kind = kind;
  look.output_gradient = output_gradient;
  look.weight_gradient = weight_gradient;
  look.samples = 8;
  return look;
}

/// Trials whose squared errors are so much at 2 bits, 9 times that at 1, and fall with the number
/// of levels as formulas say.
inline void try_layer(Director& director, std::uint32_t layer, double error_at_2_bits) {
  const auto& menu = director.layer(layer).menu;
  Look seen;
  seen.kind = director.layer(layer).kind;
  seen.trials.resize(menu.size());
  for (const auto i : director.trials(layer)) {
    const double levels = std::ldexp(1.0, menu[i].spec.bits) - 1;
    const double error = error_at_2_bits * 9 / (levels * levels);
    seen.trials[i] = {error, error, error};
  }
  director.observe(layer, seen);
}

}  // namespace cinch::policy
