// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/cuda/sharing/imports.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include "allocator/torch/cuda/sharing/descriptors.h"

namespace cinch::allocator {

/// One range of addresses over another process's handles.
class Imports::Mapping {
 public:
  Mapping(const SharedHandles& shared, RuntimeDriver& driver)
      : runtime_(driver), driver_(driver.table()), bytes_(shared.bytes()) {
    check(driver_.reserve(driver_.self, bytes_, &address_), "no addresses for");
    try {
      for (const SharedHandles::Piece& piece : shared.pieces) take(shared.process, piece);
      check(driver_.set_access(driver_.self, address_, mapped_), "no access to");
    } catch (...) {
      undo();
      throw;
    }
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    // PyTorch has waited for the tensor's stream only; others may use the memory too. A capture
    // allows no wait: then it stays mapped, so that pending work can still use it.
    if (runtime_.synchronize()) undo();
  }

  void* pointer() const {
    return reinterpret_cast<void*>(address_);  // NOLINT(performance-no-int-to-ptr)
  }

 private:
  static void check(Status status, const char* what) {
    TORCH_CHECK(status == Status::ok, what, " memory of another process: ", status_name(status));
  }

  void take(std::int32_t process, const SharedHandles::Piece& piece) {
    std::string fault;
    const int descriptor = fetch_descriptor(process, piece.descriptor, fault);
    TORCH_CHECK(descriptor >= 0, "CUDA memory of process ", process, " can't be opened (", fault,
                "); set \"allocator\": {\"cuda\": false} in its policy, "
                "or have both of one user, and allowed to trace each other");
    Handle handle = 0;
    const Status imported = runtime_.import_handle(descriptor, &handle);
    close(descriptor);
    check(imported, "can't import");
    const Status status = driver_.map(driver_.self, address_ + mapped_, piece.bytes, handle);
    // The mapping keeps the memory.
    driver_.release(driver_.self, handle);
    check(status, "can't map");
    pieces_.push_back(piece.bytes);
    mapped_ += piece.bytes;
  }

  void undo() noexcept {
    Address at = address_;
    for (const std::size_t bytes : pieces_) {
      if (driver_.unmap(driver_.self, at, bytes, 0) != Status::ok) return;
      at += bytes;
    }
    driver_.unreserve(driver_.self, address_, bytes_);
  }

  RuntimeDriver& runtime_;
  const Driver driver_;
  const std::size_t bytes_;
  Address address_ = 0;
  std::size_t mapped_ = 0;
  std::vector<std::size_t> pieces_;
};

std::shared_ptr<void> Imports::open(const std::string& text, const SharedHandles& shared,
                                    int device, RuntimeDriver& driver) {
  const std::lock_guard lock(mutex_);
  std::erase_if(mappings_, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<Mapping>& known = mappings_[{device, text}];
  std::shared_ptr<Mapping> mapping = known.lock();
  if (mapping == nullptr) {
    mapping = std::make_shared<Mapping>(shared, driver);
    known = mapping;
  }
  void* pointer = mapping->pointer();
  return {std::move(mapping), pointer};
}

}  // namespace cinch::allocator
