// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <mutex>

#include <ATen/record_function.h>

namespace cinch::hooks {

/// A callback that runs when backward starts a node, on the thread that runs the node. Costs
/// nothing while switched off. Lives as long as the process. Thread-safe except for install().
class NodeCallback {
 public:
  /// Registers `at_start`, switched off. Drops its exceptions: if something is wrong with the node,
  /// backward itself throws. @pre called once, before install_fork_handlers
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

  /// Does nothing if install() was not called.
  void switch_to(bool on) noexcept;

 private:
  void add(at::RecordFunctionCallback::StartCallback start);

  std::mutex mutex_;
  at::CallbackHandle handle_{};
  bool installed_ = false;
  bool on_ = false;  // under mutex_
};

}  // namespace cinch::hooks
