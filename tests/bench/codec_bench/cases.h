// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/bench/codec_bench/source.h"
#include "tests/bench/codec_bench/subject.h"

/// What is benchmarked. To add a case, add a line to cases.cpp.
namespace cinch::bench {

/// A subject with its parameters, by the name it is reported under.
struct Contender {
  std::string name;
  /// Bound on the absolute error as a fraction of the data's root mean square; 0: has none.
  double relative_bound = 0;
  /// The subject for that bound, or null when it is not to be had in this build.
  std::function<std::unique_ptr<Subject>(double bound)> make;
  /// How the data are described to it, where that is not as they are.
  codecs::Description (*view)(const codecs::Description&) = nullptr;

  codecs::Description described(const Source& source) const {
    return view != nullptr ? view(source.what) : source.what;
  }
};

/// Data and what is run on them, one after the other: opponents stand next to what they oppose.
struct Group {
  Source source;
  std::vector<Contender> contenders;
};

/// Random data, about `bytes` of each.
std::vector<Group> random_groups(std::int64_t bytes);

/// What suits activations of that kind; empty when the kind is unknown.
std::vector<Contender> contenders_for(std::string_view kind);

}  // namespace cinch::bench
