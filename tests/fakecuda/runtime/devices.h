// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace fakecuda {

/// Whether devices have what an attribute tells.
bool has(CUdevice_attribute which);
/// The most shared memory that a block may have.
int most_shared_bytes();
/// The calling thread's device.
int current_device();
bool is_device(int device);
/// A device's primary context, made or not. There are no others.
CUcontext context_of(int device);
/// Makes the calling thread's device's primary context, if it isn't there yet.
void make_context();

}  // namespace fakecuda
