// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "tests/bench/codec_bench/source.h"

/// Random data of any shape: the same at every run.
namespace cinch::bench {

/// Planes of height x width that take about `bytes`; channels-last with 64 interleaved channels,
/// otherwise contiguous samples of 64 channels.
codecs::Description planes(codecs::ElementType type, std::int64_t height, std::int64_t width,
                           std::int64_t bytes, bool channels_last = false);

/// Consecutive rows of `width` that take about `bytes`.
codecs::Description rows(codecs::ElementType type, std::int64_t width, std::int64_t bytes);

/// Rows of `width` features that take about `bytes`; in logical order come 256 rows' first
/// features, then their second ones.
codecs::Description features(codecs::ElementType type, std::int64_t width, std::int64_t bytes);

/// N(0, 1), of a floating-point type.
Source normal(std::string name, const codecs::Description& what);
/// max(N(0, 1), 0): what ReLU leaves.
Source rectified(std::string name, const codecs::Description& what);
/// One element in ten 0 and the others 1/0.9 (1 for bool): dropout's.
Source dropout(std::string name, const codecs::Description& what);
/// int64 indices of a 2x2 max-pooling with stride 2; sets index_extent.
Source pool_indices(std::string name, codecs::Description what);
/// int64 from 0 to 255: tokens, labels.
Source tokens(std::string name, const codecs::Description& what);

}  // namespace cinch::bench
