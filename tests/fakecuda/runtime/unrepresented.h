// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fakecuda {

/// A use of a function that is not represented: says so, and is a fault. @return the error
/// "operation not supported", the same number for the runtime and the driver
int not_represented(const char* function);

}  // namespace fakecuda
