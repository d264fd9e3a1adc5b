// SPDX-License-Identifier: Apache-2.0
#pragma once

/// CUDA's runtime functions, or a stand-in that runs on the host (see device.h).
#ifdef CINCH_CUDA_ON_HOST
#include "cuda_on_host.h"
#else
#include <cuda_runtime_api.h>
#endif
