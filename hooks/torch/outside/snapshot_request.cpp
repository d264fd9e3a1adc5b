// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/outside/snapshot_request.h"

#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include <ATen/record_function.h>

#include "hooks/torch/outside/snapshot_file_program.h"
#include "hooks/torch/outside/snapshot_request_program.h"
#include "hooks/torch/process/interpreter.h"

namespace cinch::hooks {
namespace {

/// After so many optimizer scopes without CUDA in use, the program is not asked again.
constexpr int most_tries = 256;

std::unique_ptr<at::ObserverContext> arrange_when_cuda_is_used(const at::RecordFunction& function) {
  static std::atomic<int> tries{0};
  static std::atomic<bool> busy{false};
  if (tries.load(std::memory_order_relaxed) >= most_tries ||
      !std::string_view(function.name()).starts_with("Optimizer.") || busy.exchange(true)) {
    return nullptr;
  }
  try {
    if (tries < most_tries) {
      ++tries;
      const std::string program = std::string(snapshot_file_program()) + snapshot_request_program();
      if (run_python(program.c_str(), "state") == "arranged") tries = most_tries;
    }
  } catch (const std::exception&) {
    // No memory: no snapshot.
  }
  busy = false;
  return nullptr;
}

}  // namespace

void arrange_snapshot() {
  const char* file = std::getenv("CINCH_SNAPSHOT");
  if (file == nullptr || *file == '\0') return;
  at::addGlobalCallback(
      at::RecordFunctionCallback(arrange_when_cuda_is_used).scopes({at::RecordScope::USER_SCOPE}));
}

}  // namespace cinch::hooks
