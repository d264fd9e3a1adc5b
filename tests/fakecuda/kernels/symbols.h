// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>

namespace fakecuda::kernels {

/// As in C++'s source: without what tells apart functions of internal linkage and anonymous
/// namespaces. Empty when it is no mangled name.
std::string demangled(const char* name);

/// The functions of this library, internal ones too, by demangled name, from its file's symbol
/// table.
std::unordered_map<std::string, void*> functions_of_this_library();

}  // namespace fakecuda::kernels
