// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

/// Tensors of wrapper subclasses: Python classes that hold other tensors and compute with those, as
/// distributed tensors (DTensor) and jagged nested tensors. wrapper_tensor.py says how they are
/// taken apart. Waits for the interpreter's lock. @pre no lock of Cinch's is held
namespace cinch::hooks {

/// Owns a reference to a Python object. Any thread may destroy it: one that does not hold the
/// interpreter's lock leaves the object to the next call of this file's functions. Waiting for the
/// lock would end a thread that outlives the interpreter, and with it the process.
class PythonReference {
 public:
  /// @param owned Not null. @pre the interpreter's lock is held
  explicit PythonReference(void* owned) : link_(new Link{owned}) {}
  PythonReference(PythonReference&& other) noexcept : link_(std::exchange(other.link_, nullptr)) {}
  PythonReference& operator=(PythonReference&&) = delete;
  ~PythonReference();

  void* get() const noexcept { return link_->object; }
  /// Drops what other threads left. @pre the interpreter's lock is held
  static void drop_left();

 private:
  struct Link {
    void* object;
    Link* next = nullptr;
  };
  static std::atomic<Link*> left_;

  Link* link_;
};

/// What a wrapper tensor consists of.
struct TakenApart {
  PythonReference plan;           ///< how to put it together
  std::vector<at::Tensor> plain;  ///< of class torch.Tensor, without a grad_fn
  bool is_elementwise;  ///< an error in one of `plain` is one of the same size in the whole
};

/// Takes `tensor` apart. Nullopt for tensors of other kinds, and for classes that, put together
/// again when they were first seen, did not give the same. Never throws.
std::optional<TakenApart> take_apart(const at::Tensor& tensor) noexcept;

/// A tensor like the one that was taken apart, of `plain`, which lie as its plain tensors lay.
/// @throws c10::Error with the class's own message if that fails
at::Tensor put_together(const PythonReference& plan, const std::vector<at::Tensor>& plain);

}  // namespace cinch::hooks
