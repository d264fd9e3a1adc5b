// SPDX-License-Identifier: Apache-2.0
#include "codecs/cuda/library/load.h"

#include <cstdint>

#include "codecs/cuda/curvature/without_bias.h"
#include "codecs/cuda/library/loading.h"
#include "codecs/cuda/library/outcome.h"
#include "codecs/cuda/masks/keep_where.h"
#include "codecs/cuda/norms/channels.h"
#include "codecs/cuda/norms/normalize.h"
#include "codecs/cuda/pointwise/program.h"

namespace cinch::codecs::cuda {

bool load(const DeviceCodec& codec, const Description& what) noexcept {
  const Loading loading;
  // Stands for all memory of the device: nothing is launched, so nothing reads or writes it.
  constexpr std::uintptr_t address = std::uintptr_t{1} << 40;
  constexpr std::size_t enough = std::size_t{1} << 60;
  auto* const memory = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  auto* const result = reinterpret_cast<Result*>(memory);
  constexpr std::byte nothing{};
  bool loaded = codec.encode(what, memory, memory, result, memory, {}, nullptr);
  for (const Reads reads : {Reads::values, Reads::sign, Reads::interval}) {
    loaded = codec.decode(what, {memory, enough}, memory, reads, memory, nullptr) && loaded;
  }
  loaded = write(memory, &nothing, sizeof nothing, nullptr) && loaded;
  if (is_float(what.type)) {
    loaded = apply_without_bias(Smooth::gelu, what.type, {memory, 8, 8}, {0, 1, 8, 8}, memory,
                                memory, nullptr) &&
             loaded;
  }
  // Norms and chains of operators are derived from what any of these codecs holds, in a type that
  // is not known yet.
  if (is_float(what.type) && what.type != ElementType::float64) {
    loaded = keep_where(element_size(what.type), 8, memory, memory, memory, nullptr) && loaded;
    const auto* const numbers = reinterpret_cast<const float*>(memory);
    for (const ChannelOrder& order : {ChannelOrder{1, 8, 1}, ChannelOrder{1, 1, 8}}) {
      const ChannelNorm channels = {order, numbers, numbers, numbers, numbers};
      loaded = normalize_channels(what.type, channels, memory, memory, nullptr) && loaded;
    }
    const RowNorm norm = {1, 8, numbers, numbers, numbers, numbers};
    for (const ElementType to :
         {ElementType::float32, ElementType::bfloat16, ElementType::float16}) {
      loaded = normalize_rows(what.type, to, norm, memory, memory, nullptr) && loaded;
    }
  }
  const Program copied = {.steps = {{.op = Program::Op::load, .operand = Program::Operand::tensor}},
                          .tensors = {{memory, ElementType::float32}},
                          .step_count = 1,
                          .tensor_count = 1};
  for (const ElementType to : {ElementType::float32, ElementType::bfloat16, ElementType::float16}) {
    loaded = apply_program(copied, 8, to, memory, nullptr) && loaded;
  }
  return keep_source(result, 0, memory, memory, 1, nullptr) && loaded;
}

}  // namespace cinch::codecs::cuda
