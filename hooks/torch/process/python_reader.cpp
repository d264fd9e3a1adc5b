// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/python_reader.h"

#include <cstdint>
#include <cstring>

#include <link.h>
#include <unwind.h>

#include "hooks/torch/process/interpreter.h"

namespace cinch::hooks {
namespace {

/// Where a library lies in the address space.
struct Range {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool holds(std::uintptr_t address) const noexcept { return address >= begin && address < end; }
};

struct Libraries {
  Range core;    // this one
  Range python;  // libtorch_python

  static int add(dl_phdr_info* info, std::size_t, void* self) {
    Range range{UINTPTR_MAX, 0};
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD) continue;
      const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
      range.begin = begin < range.begin ? begin : range.begin;
      range.end = begin + segment.p_memsz > range.end ? begin + segment.p_memsz : range.end;
    }
    auto& all = *static_cast<Libraries*>(self);
    if (range.holds(reinterpret_cast<std::uintptr_t>(&is_read_by_python))) all.core = range;
    if (std::strstr(info->dlpi_name, "libtorch_python") != nullptr) all.python = range;
    return 0;
  }
};

// Walks the stack outward: the core's own frames, then SavedVariable::unpack, then its caller.
// `found`: that caller is in libtorch_python.
struct Walk {
  const Libraries& libraries;
  bool is_outside = false;
  bool found = false;

  static _Unwind_Reason_Code step(_Unwind_Context* frame, void* self) {
    auto& walk = *static_cast<Walk*>(self);
    const auto address = static_cast<std::uintptr_t>(_Unwind_GetIP(frame));
    if (walk.is_outside) {
      walk.found = walk.libraries.python.holds(address);
      return _URC_END_OF_STACK;
    }
    walk.is_outside = !walk.libraries.core.holds(address);
    return _URC_NO_REASON;
  }
};

}  // namespace

bool is_read_by_python() noexcept {
  if (!holds_interpreter()) return false;
  static const Libraries libraries = [] {
    Libraries all;
    dl_iterate_phdr(Libraries::add, &all);
    return all;
  }();
  Walk walk{libraries};
  _Unwind_Backtrace(Walk::step, &walk);
  return walk.found;
}

}  // namespace cinch::hooks
