// SPDX-License-Identifier: Apache-2.0
//
// What ThreadSanitizer can't see in these tests: torch's own libraries are not instrumented, so
// that a reference count that reaches zero in them orders nothing for it, and the free that follows
// looks like a race with whoever dropped another reference before.

extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:c10::TensorImpl::~TensorImpl\n";
}
