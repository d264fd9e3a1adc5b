// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "tests/bench/codec_bench/subject.h"

/// Compressors that people would otherwise take, each null when it was not there at configuration.
///
/// They are single-threaded libraries: data are cut into pieces of a few planes, one call each.
namespace cinch::bench {

/// zfp at a fixed rate. Of float32 in contiguous planes, which lie one below the other in a
/// 2-dimensional field.
std::unique_ptr<Subject> make_zfp_rate(double bits);
/// zfp with a bound on the absolute error; the same data.
std::unique_ptr<Subject> make_zfp_accuracy(double bound);
std::unique_ptr<Subject> make_zstd(int level);
std::unique_ptr<Subject> make_lz4();

}  // namespace cinch::bench
