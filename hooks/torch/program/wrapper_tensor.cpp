// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/program/wrapper_tensor.h"

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include <ATen/core/grad_mode.h>
#include <dlfcn.h>

#include "hooks/torch/process/interpreter.h"
#include "hooks/torch/process/python_symbol.h"
#include "hooks/torch/program/wrapper_tensor_program.h"

namespace cinch::hooks {
namespace {

/// The Python functions that this file calls. Objects are void*.
struct Python {
  int (*is_initialized)() = nullptr;
  int (*ensure)() = nullptr;
  void (*release)(int) = nullptr;
  void (*fetch_error)(void**, void**, void**) = nullptr;
  void (*set_error)(void*, void*, void*) = nullptr;
  int (*call_later)(int (*)(void*), void*) = nullptr;
  void* (*new_dict)() = nullptr;
  int (*set_item)(void*, const char*, void*) = nullptr;
  void* (*get_item)(void*, const char*) = nullptr;
  void* (*builtins)() = nullptr;
  void* (*compile)(const char*, const char*, int) = nullptr;
  void* (*evaluate)(void*, void*, void*) = nullptr;
  void* (*call)(void*, ...) = nullptr;
  std::ptrdiff_t (*tuple_size)(void*) = nullptr;
  void* (*in_tuple)(void*, std::ptrdiff_t) = nullptr;
  void* (*new_list)(std::ptrdiff_t) = nullptr;
  std::ptrdiff_t (*list_size)(void*) = nullptr;
  int (*set_in_list)(void*, std::ptrdiff_t, void*) = nullptr;
  void* (*in_list)(void*, std::ptrdiff_t) = nullptr;
  void* (*address)(void*) = nullptr;
  int (*is_true)(void*) = nullptr;
  void* (*to_text)(void*) = nullptr;
  const char* (*text)(void*, std::ptrdiff_t*) = nullptr;
  void (*hold)(void*) = nullptr;
  void (*drop)(void*) = nullptr;
  /// libtorch_python's THPVariable_Wrap: a new reference to the tensor's object.
  void* (*object_of)(const at::TensorBase&) = nullptr;
  bool found = false;

  Python() {
    found =
        find_in_python(is_initialized, "Py_IsInitialized") &&
        find_in_python(ensure, "PyGILState_Ensure") &&
        find_in_python(release, "PyGILState_Release") &&
        find_in_python(fetch_error, "PyErr_Fetch") && find_in_python(set_error, "PyErr_Restore") &&
        find_in_python(call_later, "Py_AddPendingCall") && find_in_python(new_dict, "PyDict_New") &&
        find_in_python(set_item, "PyDict_SetItemString") &&
        find_in_python(get_item, "PyDict_GetItemString") &&
        find_in_python(builtins, "PyEval_GetBuiltins") &&
        find_in_python(compile, "Py_CompileString") &&
        find_in_python(evaluate, "PyEval_EvalCode") &&
        find_in_python(call, "PyObject_CallFunctionObjArgs") &&
        find_in_python(tuple_size, "PyTuple_Size") && find_in_python(in_tuple, "PyTuple_GetItem") &&
        find_in_python(new_list, "PyList_New") && find_in_python(list_size, "PyList_Size") &&
        find_in_python(set_in_list, "PyList_SetItem") &&
        find_in_python(in_list, "PyList_GetItem") && find_in_python(address, "PyLong_AsVoidPtr") &&
        find_in_python(is_true, "PyObject_IsTrue") && find_in_python(to_text, "PyObject_Str") &&
        find_in_python(text, "PyUnicode_AsUTF8AndSize") && find_in_python(hold, "Py_IncRef") &&
        find_in_python(drop, "Py_DecRef") && find_object_of();
  }

  bool find_object_of() {
    void* library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return false;
    object_of = reinterpret_cast<decltype(object_of)>(
        dlsym(library, "_Z16THPVariable_WrapRKN2at10TensorBaseE"));
    dlclose(library);
    return object_of != nullptr;
  }
};

const Python& python() {
  static const Python functions;
  return functions;
}

struct Raised {
  void* type = nullptr;
  void* value = nullptr;
  void* trace = nullptr;
};

void drop_all(const Raised& raised) {
  for (void* object : {raised.type, raised.value, raised.trace}) {
    if (object != nullptr) python().drop(object);
  }
}

/// A scope in which this thread may call Python. An exception that is pending stays so.
class PythonScope {
 public:
  PythonScope() : state_(python().ensure()) {
    python().fetch_error(&pending_.type, &pending_.value, &pending_.trace);
    PythonReference::drop_left();
  }
  PythonScope(const PythonScope&) = delete;
  PythonScope& operator=(const PythonScope&) = delete;
  ~PythonScope() {
    python().set_error(pending_.type, pending_.value, pending_.trace);
    python().release(state_);
  }

 private:
  int state_;
  Raised pending_;
};

/// Owns a reference for a while, in which the interpreter's lock is held. May be null.
struct Drop {
  void operator()(void* object) const { python().drop(object); }
};
using Owned = std::unique_ptr<void, Drop>;

int raise_again(void* kept) {
  const std::unique_ptr<Raised> raised(static_cast<Raised*>(kept));
  python().set_error(raised->type, raised->value, raised->trace);
  return -1;
}

/// A new reference to what `ask` returns. On the main thread, Python may run the program's signal
/// handlers meanwhile, and what one raises must reach the program: `ask` is called once more, and
/// the exception comes to the main thread soon after. Null with an exception pending if `ask` fails
/// by itself.
template <typename Ask>
void* despite_signals(const Ask& ask) {
  if (void* answer = ask()) return answer;
  Raised first;
  python().fetch_error(&first.type, &first.value, &first.trace);
  void* answer = ask();
  if (answer == nullptr) {
    drop_all(first);
    return nullptr;
  }
  auto* kept = new (std::nothrow) Raised(first);
  if (kept == nullptr || python().call_later(raise_again, kept) != 0) {
    delete kept;
    drop_all(first);
  }
  return answer;
}

/// The names of wrapper_tensor.py after it ran; null with an exception pending if that fails.
void* run_program() {
  constexpr int file_input = 257;  // Py_file_input
  void* names = python().new_dict();
  void* code = python().compile(wrapper_tensor_program(), "<cinch>", file_input);
  void* done = nullptr;
  if (names != nullptr && code != nullptr &&
      python().set_item(names, "__builtins__", python().builtins()) == 0) {
    done = python().evaluate(code, names, names);
  }
  if (code != nullptr) python().drop(code);
  if (done != nullptr) {
    python().drop(done);
  } else if (names != nullptr) {
    python().drop(std::exchange(names, nullptr));
  }
  return names;
}

/// A new reference to what the program's function returns; null with an exception pending.
template <typename... Objects>
void* call(const char* function, Objects... arguments) {
  // The interpreter's lock guards this. The program may give it up while it runs, so that two
  // threads may run it, which does no harm.
  static void* names = nullptr;
  if (names == nullptr) names = despite_signals(run_program);
  if (names == nullptr) return nullptr;
  void* called = python().get_item(names, function);
  void* const end = nullptr;
  return despite_signals([&] { return python().call(called, arguments..., end); });
}

at::Tensor tensor_at(void* address) {
  return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(
      static_cast<c10::TensorImpl*>(python().address(address))));
}

/// Clears Python's pending exception. @return what it says
std::string take_message() {
  Raised raised;
  python().fetch_error(&raised.type, &raised.value, &raised.trace);
  void* said = raised.value == nullptr ? nullptr : python().to_text(raised.value);
  std::ptrdiff_t size = 0;
  const char* text = said == nullptr ? nullptr : python().text(said, &size);
  std::string copy = text == nullptr ? "" : std::string(text, static_cast<std::size_t>(size));
  if (said != nullptr) python().drop(said);
  drop_all(raised);
  return copy;
}

}  // namespace

std::atomic<PythonReference::Link*> PythonReference::left_{nullptr};

PythonReference::~PythonReference() {
  if (link_ == nullptr) return;
  if (holds_interpreter()) {
    python().drop(link_->object);
    delete link_;
    return;
  }
  link_->next = left_.load();
  while (!left_.compare_exchange_weak(link_->next, link_)) {
  }
}

void PythonReference::drop_left() {
  Link* link = left_.exchange(nullptr);
  while (link != nullptr) {
    const std::unique_ptr<Link> owned(link);
    link = owned->next;
    python().drop(owned->object);
  }
}

std::optional<TakenApart> take_apart(const at::Tensor& tensor) noexcept try {
  if (!python().found || python().is_initialized() == 0) return std::nullopt;
  const PythonScope scope;
  const c10::AutoGradMode no_graph(false);
  const Owned object(python().object_of(tensor));
  const Owned answer(call("take_apart", object.get()));
  if (answer == nullptr) {
    take_message();
    return std::nullopt;
  }
  if (python().tuple_size(answer.get()) == 0) return std::nullopt;
  const auto part = [&](std::ptrdiff_t i) { return python().in_tuple(answer.get(), i); };
  python().hold(part(0));
  TakenApart parts{PythonReference(part(0)), {}, python().is_true(part(3)) == 1};
  const std::ptrdiff_t n = python().list_size(part(2));
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    parts.plain.push_back(tensor_at(python().in_list(part(2), i)));
  }
  return parts;
} catch (const std::exception&) {
  return std::nullopt;
}

at::Tensor put_together(const PythonReference& plan, const std::vector<at::Tensor>& plain) {
  constexpr const char* failed = "A saved tensor of a wrapper class could not be restored: ";
  TORCH_CHECK(python().is_initialized() != 0, failed, "Python has ended");
  const PythonScope scope;
  const c10::AutoGradMode no_graph(false);
  const Owned list(python().new_list(static_cast<std::ptrdiff_t>(plain.size())));
  std::ptrdiff_t i = 0;
  for (const at::Tensor& each : plain) {
    python().set_in_list(list.get(), i++, python().object_of(each));
  }
  const Owned answer(call("put_together", plan.get(), list.get()));
  TORCH_CHECK(answer != nullptr, failed, take_message());
  return tensor_at(python().in_tuple(answer.get(), 1));
}

}  // namespace cinch::hooks
