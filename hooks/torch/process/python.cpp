// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/process/python.h"

#include <type_traits>
#include <utility>

#include <dlfcn.h>

namespace cinch::hooks {
namespace {

Python find_all() {
  Python all;
  all.found = true;
  const auto find = [&all](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
    all.found &= function != nullptr;
  };
  find(all.is_initialized, "Py_IsInitialized");
  find(all.ensure, "PyGILState_Ensure");
  find(all.release, "PyGILState_Release");
  find(all.give_up_lock, "PyEval_SaveThread");
  find(all.take_lock, "PyEval_RestoreThread");
  find(all.call_later, "Py_AddPendingCall");
  find(all.disable_gc, "PyGC_Disable");
  find(all.enable_gc, "PyGC_Enable");
  find(all.compile, "Py_CompileString");
  find(all.evaluate, "PyEval_EvalCode");
  find(all.builtins, "PyEval_GetBuiltins");
  find(all.frame, "PyEval_GetFrame");
  find(all.module, "PyImport_AddModule");
  find(all.call, "PyObject_CallFunctionObjArgs");
  find(all.error_occurred, "PyErr_Occurred");
  find(all.clear_error, "PyErr_Clear");
  find(all.fetch_error, "PyErr_Fetch");
  find(all.set_error, "PyErr_Restore");
  find(all.hold, "Py_IncRef");
  find(all.drop, "Py_DecRef");
  find(all.type_of, "PyObject_Type");
  find(all.attribute, "PyObject_GetAttrString");
  find(all.attributes, "PyObject_GenericGetDict");
  find(all.item, "PyMapping_GetItemString");
  find(all.is_true, "PyObject_IsTrue");
  find(all.to_text, "PyObject_Str");
  find(all.text, "PyUnicode_AsUTF8AndSize");
  find(all.number, "PyLong_AsLongLong");
  find(all.address, "PyLong_AsVoidPtr");
  find(all.new_dict, "PyDict_New");
  find(all.set_item, "PyDict_SetItemString");
  find(all.get_item, "PyDict_GetItemString");
  find(all.next, "PyDict_Next");
  find(all.tuple_size, "PyTuple_Size");
  find(all.in_tuple, "PyTuple_GetItem");
  find(all.new_list, "PyList_New");
  find(all.list_size, "PyList_Size");
  find(all.in_list, "PyList_GetItem");
  find(all.set_in_list, "PyList_SetItem");
  return all;
}

}  // namespace

void* Python::run(const char* program) const {
  constexpr int file_input = 257;  // Py_file_input
  void* names = new_dict();
  void* const code = compile(program, "<cinch>", file_input);
  void* done = nullptr;
  if (names != nullptr && code != nullptr && set_item(names, "__builtins__", builtins()) == 0) {
    done = evaluate(code, names, names);
  }
  if (code != nullptr) drop(code);
  if (done != nullptr) {
    drop(done);
  } else if (names != nullptr) {
    drop(std::exchange(names, nullptr));
  }
  return names;
}

const Python& python() noexcept {
  static const Python functions = find_all();
  return functions;
}

}  // namespace cinch::hooks
