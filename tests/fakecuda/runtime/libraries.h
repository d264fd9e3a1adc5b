// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fakecuda {

/// Loads the libraries that FAKECUDA_LIBRARIES names (separated by colons), once, and calls each
/// one's `fakecuda_loaded`. Does nothing while torch, whose operators they replace, is not loaded.
void load_libraries();

}  // namespace fakecuda
