// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that host and device code share.
#ifdef __CUDACC__
#define CINCH_HD __host__ __device__
#else
#define CINCH_HD
#endif
