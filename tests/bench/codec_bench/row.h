// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "tests/bench/codec_bench/buffer.h"
#include "tests/bench/codec_bench/cases.h"

namespace cinch::bench {

/// What rows share, so that buffers are mapped and data made once. One row runs at a time.
struct Workbench {
  const Source* loaded = nullptr;
  double root_mean_square = 1;
  Buffer source;
  Buffer target;
  Buffer encoded;

  void load(const Source& wanted);
};

/// One contender on one source with one number of threads: a benchmark.
///
/// An iteration is a round of memcpy, encode and decode; the manual time is that of the last two.
/// Speeds are those of the shortest times over all rounds that were run, of which there are a few
/// even where one takes longer than the row's time. The first one's result is compared with the
/// source.
class Row {
 public:
  /// @param source, contender and bench live as long as the row
  Row(const Source& source, const Contender& contender, int threads, Workbench& bench)
      : source_(source),
        contender_(contender),
        what_(contender.described(source)),
        threads_(threads),
        bench_(bench) {}

  void run(benchmark::State& state);

 private:
  /// Nothing, or what went wrong.
  const char* begin();
  const char* round();
  void report(benchmark::State& state) const;

  const Source& source_;
  const Contender& contender_;
  codecs::Description what_;
  int threads_;
  Workbench& bench_;

  std::unique_ptr<Subject> subject_;
  std::uint64_t rounds_ = 0;
  double bound_ = 0;
  std::size_t encoded_bytes_ = 0;
  Errors errors_;
  std::vector<double> copy_, encode_, decode_;  ///< seconds
};

/// Whether any row failed.
bool any_row_failed();

}  // namespace cinch::bench
