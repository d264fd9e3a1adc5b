// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>

namespace fakecuda::kernels {

/// The name as in C++ source, without what distinguishes functions of internal linkage and those of
/// anonymous namespaces. Empty when `name` is not a mangled name.
std::string demangled(const char* name);

/// This library's functions by demangled name, internal ones included, from its symbol table.
std::unordered_map<std::string, void*> functions_of_this_library();

}  // namespace fakecuda::kernels
