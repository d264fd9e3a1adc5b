// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "codecs/cuda/codec.h"
#include "codecs/formats/masks/with_bounds.h"

/// Makes the device codecs, one function a family. @pre the host codec of the same spec exists
namespace cinch::codecs::cuda {

std::shared_ptr<const DeviceCodec> make_blpa_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_dct_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_division_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_division_groups_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_error_bounded_ratio_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_exponent_pack_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_fixed_point_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_group_quant_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_interval_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_narrow_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_raw_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_sign_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_two_sided_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_two_valued_cuda(const CodecSpec& spec);
std::shared_ptr<const DeviceCodec> make_window_index_cuda(const CodecSpec& spec);

/// The signs of with_sign.h beside the values of `inner`.
std::shared_ptr<const DeviceCodec> make_with_sign_cuda(std::shared_ptr<const DeviceCodec> inner,
                                                       SignedValues values);

/// The sides of `bound` that with_bounds.h holds beside the values of `inner`.
std::shared_ptr<const DeviceCodec> make_with_bound_cuda(std::shared_ptr<const DeviceCodec> inner,
                                                        Bound bound);

}  // namespace cinch::codecs::cuda
