// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fakecuda {

/// Reports the use of a function that the fake does not represent, as a fault. @return the error
/// "operation not supported", which has the same number in the runtime and the driver
int not_represented(const char* function);

}  // namespace fakecuda
