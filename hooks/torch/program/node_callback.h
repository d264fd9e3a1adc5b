// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <mutex>

#include <ATen/record_function.h>

namespace cinch::hooks {

/// Something that is called when backward starts a node, on the thread that runs it; while it is
/// switched off it costs nothing. Lives as long as the process. Thread-safe but for install().
class NodeCallback {
 public:
  /// Registers `at_start`, switched off. What it throws is dropped: whatever is wrong with the
  /// node, backward itself will say it. @pre called once, before threads fork
  template <void (*at_start)(const at::RecordFunction&)>
  void install() {
    add([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
      try {
        at_start(function);
      } catch (const std::exception&) {
      }
      return nullptr;
    });
  }

  /// Nothing when install() was not called.
  void switch_to(bool on) noexcept;

 private:
  void add(at::RecordFunctionCallback::StartCallback start);

  std::mutex mutex_;
  at::CallbackHandle handle_{};
  bool installed_ = false;
  bool on_ = false;  // under mutex_
};

}  // namespace cinch::hooks
