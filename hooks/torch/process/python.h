// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cinch::hooks {

/// Python's functions that Cinch calls, found in the process, as Cinch does not depend on Python's
/// headers and libraries. All are in the stable ABI of Python 3.10, so that later ones have them.
/// Objects are void*; what is returned is an owned reference unless a comment says "borrowed".
struct Python {
  // The interpreter and its lock.
  int (*is_initialized)() = nullptr;
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  void* (*give_up_lock)() = nullptr;
  void (*take_lock)(void*) = nullptr;
  int (*call_later)(int (*)(void*), void*) = nullptr;
  int (*disable_gc)() = nullptr;
  int (*enable_gc)() = nullptr;
  // Programs.
  void* (*compile)(const char*, const char*, int) = nullptr;
  void* (*evaluate)(void*, void*, void*) = nullptr;
  void* (*builtins)() = nullptr;           // borrowed
  void* (*frame)() = nullptr;              // borrowed
  void* (*module)(const char*) = nullptr;  // borrowed
  void* (*call)(void*, ...) = nullptr;     // arguments end with null
  // Exceptions.
  void* (*error_occurred)() = nullptr;  // borrowed
  void (*clear_error)() = nullptr;
  void (*fetch_error)(void**, void**, void**) = nullptr;
  void (*set_error)(void*, void*, void*) = nullptr;
  // Objects.
  void (*hold)(void*) = nullptr;
  void (*drop)(void*) = nullptr;
  void* (*type_of)(void*) = nullptr;
  void* (*attribute)(void*, const char*) = nullptr;
  void* (*attributes)(void*, void*) = nullptr;
  void* (*item)(void*, const char*) = nullptr;  // of a mapping
  int (*is_true)(void*) = nullptr;
  void* (*to_text)(void*) = nullptr;
  const char* (*text)(void*, std::ptrdiff_t*) = nullptr;
  long long (*number)(void*) = nullptr;
  void* (*address)(void*) = nullptr;
  // Dictionaries, tuples and lists.
  void* (*new_dict)() = nullptr;
  int (*set_item)(void*, const char*, void*) = nullptr;
  void* (*get_item)(void*, const char*) = nullptr;                // borrowed
  int (*next)(void*, std::ptrdiff_t*, void**, void**) = nullptr;  // borrowed
  std::ptrdiff_t (*tuple_size)(void*) = nullptr;
  void* (*in_tuple)(void*, std::ptrdiff_t) = nullptr;  // borrowed
  void* (*new_list)(std::ptrdiff_t) = nullptr;
  std::ptrdiff_t (*list_size)(void*) = nullptr;
  void* (*in_list)(void*, std::ptrdiff_t) = nullptr;           // borrowed
  int (*set_in_list)(void*, std::ptrdiff_t, void*) = nullptr;  // takes the reference over

  bool found = false;  ///< all of them

  /// Runs `program` in a namespace of its own. @return its names; null with an exception pending
  /// @pre the interpreter's lock is held
  void* run(const char* program) const;
};

/// Looked up by the first call. @pre PyTorch is loaded, and with it Python if there is any
const Python& python() noexcept;

}  // namespace cinch::hooks
