// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/saved/verdict.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "allocator/torch/host_allocator.h"
#include "hooks/torch/program/backward.h"
#include "hooks/torch/program/parameter.h"
#include "hooks/torch/program/users_hooks.h"
#include "hooks/torch/stash/device/cuda_codecs.h"
#include "hooks/torch/stash/device/streams.h"

namespace cinch::hooks {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

// Every key that an ordinary dense CPU tensor may carry, also a lazily conjugated one. A closed
// list: tensors with keys that later versions of torch add are declined.
const std::uint64_t plain_cpu_keys =
    DispatchKeySet({DispatchKey::CPU, DispatchKey::ADInplaceOrView, DispatchKey::AutogradCPU,
                    DispatchKey::AutocastCPU, DispatchKey::Conjugate})
        .raw_repr();

const std::uint64_t plain_cuda_keys =
    DispatchKeySet({DispatchKey::CUDA, DispatchKey::ADInplaceOrView, DispatchKey::AutogradCUDA,
                    DispatchKey::AutocastCUDA, DispatchKey::Conjugate})
        .raw_repr();

// Whether the tensor lies within its storage: the program may have shrunk the storage.
bool fits(const c10::TensorImpl& tensor, std::size_t storage_bytes) {
  std::uint64_t last = static_cast<std::uint64_t>(tensor.storage_offset());
  const c10::IntArrayRef sizes = tensor.sizes();
  const c10::IntArrayRef strides = tensor.strides();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    last += static_cast<std::uint64_t>(sizes[i] - 1) * static_cast<std::uint64_t>(strides[i]);
  }
  return last < storage_bytes / tensor.itemsize();
}

// Modes under which a tensor stands for something else.
const DispatchKeySet transforming_modes = DispatchKeySet(
    {DispatchKey::Python, DispatchKey::PythonDispatcher, DispatchKey::PreDispatch,
     DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchDynamicLayerBackMode,
     DispatchKey::FuncTorchVmapMode, DispatchKey::FuncTorchBatched,
     DispatchKey::FuncTorchGradWrapper, DispatchKey::Functionalize, DispatchKey::Tracer});

bool transforming() {
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(transforming_modes);
}

// Whether what is saved now is not to be held, whatever it is.
Verdict judge_moment() {
  if (users_hooks_in_force()) return Verdict::user_hooks;
  if (runs_backward() && !builds_graph_in_backward()) return Verdict::during_backward;
  return Verdict::wanted;
}

// Whether the memory is of PyTorch's caching allocator: it may be freed at any time, and the
// allocator waits for work of other streams (recordStream).
bool from_device_allocator(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  return data.get() == data.get_context() &&
         data.get_deleter() == c10::GetAllocator(storage.device_type())->raw_deleter();
}

}  // namespace

// Other deleters free the memory of NumPy, of shared memory and of copy-on-write storages. To free
// such memory early gains nothing or breaks something.
bool from_ordinary_allocator(const c10::StorageImpl& storage) {
  if (storage.device_type() == c10::kCUDA) return from_device_allocator(storage);
  return allocator::is_host_deleter(storage.data_ptr().get_deleter());
}

std::string_view reason(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::wanted:
      return "";
    case Verdict::undefined:
      return "";
    case Verdict::not_plain:
      return "tensor subclass, or not plain dense memory";
    case Verdict::device:
      return "no codecs for this device in this installation";
    case Verdict::paused:
      return "while Cinch was paused";
    case Verdict::capture:
      return "while a CUDA graph is captured";
    case Verdict::python_object:
      return "saved by an autograd.Function: object of another class, or with attributes";
    case Verdict::transform:
      return "under torch.func, tracing or functionalization";
    case Verdict::inplace_view:
      return "output of an in-place operation on a view";
    case Verdict::small:
      return "smaller than min_bytes";
    case Verdict::type:
      return "element type without a codec";
    case Verdict::integers:
      return "integers (indices, targets)";
    case Verdict::parameter:
      return "";  // lives as long as the model anyway: saving it costs nothing
    case Verdict::foreign_storage:
      return "memory of NumPy, shared memory or another allocator";
    case Verdict::during_backward:
      return "saved while a backward runs, for it alone";
    case Verdict::user_hooks:
      return "the program's own saved-tensor hooks";
  }
  return "";
}

codecs::ElementType element_type(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Float:
    case c10::ScalarType::ComplexFloat:
      return codecs::ElementType::float32;
    case c10::ScalarType::BFloat16:
      return codecs::ElementType::bfloat16;
    case c10::ScalarType::Half:
    case c10::ScalarType::ComplexHalf:
      return codecs::ElementType::float16;
    case c10::ScalarType::Double:
    case c10::ScalarType::ComplexDouble:
      return codecs::ElementType::float64;
    case c10::ScalarType::Bool:
      return codecs::ElementType::boolean;
    case c10::ScalarType::Byte:
      return codecs::ElementType::uint8;
    case c10::ScalarType::Short:
      return codecs::ElementType::int16;
    case c10::ScalarType::Int:
      return codecs::ElementType::int32;
    case c10::ScalarType::Long:
      return codecs::ElementType::int64;
    default:
      return codecs::ElementType::other;
  }
}

std::size_t storage_bytes(const at::Tensor& tensor) noexcept try {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (impl.has_symbolic_sizes_strides() || !impl.has_storage()) return 0;
  return impl.unsafe_storage().nbytes();
} catch (...) {
  return 0;
}

Verdict judge(const at::Tensor& tensor, bool is_output, bool is_inplace_on_view,
              std::size_t min_bytes) noexcept try {
  if (!tensor.defined()) return Verdict::undefined;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const DispatchKeySet keys = impl.key_set();
  const bool on_cuda = keys.has(DispatchKey::CUDA) && (keys.raw_repr() & ~plain_cuda_keys) == 0;
  if (!on_cuda && ((keys.raw_repr() & ~plain_cpu_keys) != 0 || !keys.has(DispatchKey::CPU))) {
    return Verdict::not_plain;
  }
  if (transforming()) return Verdict::transform;
  if (impl.has_symbolic_sizes_strides() || !impl.has_storage() || tensor.is_inference()) {
    return Verdict::not_plain;
  }
  const c10::StorageImpl& storage = *impl.unsafe_storage().unsafeGetStorageImpl();
  if (storage.nbytes() < min_bytes || impl.numel() == 0 || impl.is_wrapped_number()) {
    return Verdict::small;
  }
  if (!fits(impl, storage.nbytes())) return Verdict::not_plain;
  const codecs::ElementType type = element_type(tensor.scalar_type());
  if (type == codecs::ElementType::other) return Verdict::type;
  const bool is_integer = type == codecs::ElementType::int64 ||
                          type == codecs::ElementType::int32 || type == codecs::ElementType::int16;
  if (is_integer && !is_output) return Verdict::integers;
  if (is_inplace_on_view) return Verdict::inplace_view;
  if (derives_from_parameter(tensor)) return Verdict::parameter;
  if (!from_ordinary_allocator(storage)) return Verdict::foreign_storage;
  if (const Verdict verdict = judge_moment(); verdict != Verdict::wanted) return verdict;
  if (on_cuda) {
    if (cuda_codecs() == nullptr) return Verdict::device;
    if (is_capturing(storage.device())) return Verdict::capture;
  }
  return Verdict::wanted;
} catch (...) {
  return Verdict::not_plain;
}

Verdict judge_wrapper(const at::Tensor& tensor, bool is_inplace_on_view,
                      std::size_t min_bytes) noexcept try {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (!impl.key_set().has(DispatchKey::Python)) return Verdict::not_plain;
  if (transforming()) return Verdict::transform;
  // A distributed tensor has the size of the whole, of which there is a part here.
  const bool is_small = !impl.has_symbolic_sizes_strides() &&
                        static_cast<std::size_t>(impl.numel()) * impl.itemsize() < min_bytes;
  if (is_small) return Verdict::small;
  if (is_inplace_on_view) return Verdict::inplace_view;
  if (derives_from_parameter(tensor)) return Verdict::parameter;
  return judge_moment();
} catch (...) {
  return Verdict::not_plain;
}

}  // namespace cinch::hooks
