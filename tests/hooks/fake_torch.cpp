// SPDX-License-Identifier: Apache-2.0
//
// What libcinch.so asks of a torch, in a library of any name, for preload_test.py: a torch 2.6 that
// "imports" itself. Without WITH_ORIGINALS nobody but libcinch.so has the functions that it calls.

#include <cstdint>

#define EXPORT extern "C" __attribute__((visibility("default")))

using EngineStub = void* (*)();

EXPORT void _ZN5torch8autograd23set_default_engine_stubEPFRNS0_6EngineEvE(EngineStub);

static EngineStub engine_stub = nullptr;

static void* make_engine() {
  return nullptr;
}

#ifdef WITH_ORIGINALS
EXPORT void _ZN5torch8autograd23set_default_engine_stubEPFRNS0_6EngineEvE(EngineStub stub) {
  engine_stub = stub;
}
EXPORT std::uint64_t aoti_torch_abi_version() {
  return std::uint64_t{2} << 56 | std::uint64_t{6} << 48;
}
#endif

// As `import torch` does. Returns whether torch's own function was called.
EXPORT int import_torch() {
  _ZN5torch8autograd23set_default_engine_stubEPFRNS0_6EngineEvE(make_engine);
  return engine_stub == make_engine ? 1 : 0;
}
