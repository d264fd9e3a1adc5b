// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <boost/interprocess/mapped_region.hpp>

#include "agent/telemetry/control.h"
#include "agent/telemetry/descriptor.h"

namespace cinch::telemetry {

/// Another process's control segment, mapped for writing.
class ControlView {
 public:
  /// Null when there is no such segment, or it is not a private file of this user, or of another
  /// version, or its process is gone; `why` says which.
  static std::unique_ptr<ControlView> open(const std::string& directory, const ProcessKey& process,
                                           std::string& why);

  ControlBlock& block() const noexcept {
    return *static_cast<ControlBlock*>(region_.get_address());
  }
  /// The segment's descriptor, for locking.
  int file() const noexcept { return file_->number(); }

 private:
  ControlView(std::unique_ptr<Descriptor> file, boost::interprocess::mapped_region region)
      : file_(std::move(file)), region_(std::move(region)) {}

  std::unique_ptr<Descriptor> file_;
  boost::interprocess::mapped_region region_;
};

}  // namespace cinch::telemetry
