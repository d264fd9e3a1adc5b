// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fakecuda {

/// Loads what FAKECUDA_LIBRARIES names (separated by colons) and calls each one's
/// `fakecuda_loaded`, once torch is there whose operators they replace; before that, nothing.
void load_libraries();

}  // namespace fakecuda
