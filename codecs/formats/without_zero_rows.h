// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "codecs/codec.h"

/// CodecSpec::without_zero_rows around any codec that approximates: rows of which every byte is
/// zero take one bit, the others go through the inner codec. For data with long stretches that
/// nobody wrote, as a recurrent layer's workspace has.
///
/// Rows are kZeroRow elements as they lie in memory. Neighbouring rows that are not zero form a
/// run, whatever the description's planes are; the inner codec encodes each run by itself, as rows.
/// Run r has the random key's step plus r * 2^48, so that no two runs get the same draws.
///
/// Bytes: bit k, lowest first, is whether row k is in a run, then zeros up to a multiple of
/// kWithoutZeroRowsAlignment | the inner codec's bytes of each run, each padded with zeros to such
/// a multiple.
namespace cinch::codecs {

inline constexpr std::int64_t kZeroRow = 1024;
inline constexpr std::int64_t kWithoutZeroRowsAlignment = 16;

/// The same class serves both engines: `inner` has the engine. Takes contiguous layouts of whole
/// rows. @pre inner restores values
std::shared_ptr<const Codec> make_without_zero_rows(std::shared_ptr<const Codec> inner);

}  // namespace cinch::codecs
