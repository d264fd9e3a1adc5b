// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

namespace cinch::telemetry {

/// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

}  // namespace cinch::telemetry
