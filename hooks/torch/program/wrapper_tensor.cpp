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
#include "hooks/torch/process/python.h"
#include "hooks/torch/program/wrapper_tensor_program.h"

namespace cinch::hooks {
namespace {

/// libtorch_python's THPVariable_Wrap, which gives a new reference to a tensor's object; null if it
/// is not there.
void* (*wrap())(const at::TensorBase&) {
  static const auto function = [] {
    void* const library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
    void* const found =
        library == nullptr ? nullptr : dlsym(library, "_Z16THPVariable_WrapRKN2at10TensorBaseE");
    if (library != nullptr) dlclose(library);
    return reinterpret_cast<void* (*)(const at::TensorBase&)>(found);
  }();
  return function;
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

/// A new reference to what the program's function returns; null with an exception pending.
template <typename... Objects>
void* call(const char* function, Objects... arguments) {
  // The interpreter's lock guards this. The program may give it up while it runs, so that two
  // threads may run it, which does no harm.
  static void* names = nullptr;
  if (names == nullptr)
    names = despite_signals([] { return python().run(wrapper_tensor_program()); });
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
  if (!python().found || wrap() == nullptr || python().is_initialized() == 0) return std::nullopt;
  const PythonScope scope;
  const c10::AutoGradMode no_graph(false);
  const Owned object(wrap()(tensor));
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
    python().set_in_list(list.get(), i++, wrap()(each));
  }
  const Owned answer(call("put_together", plan.get(), list.get()));
  TORCH_CHECK(answer != nullptr, failed, take_message());
  return tensor_at(python().in_tuple(answer.get(), 1));
}

}  // namespace cinch::hooks
