// SPDX-License-Identifier: Apache-2.0
//
// libcinch_cuda.so for the fake runtime: runs the CPU engine's codecs as work of a stream. They
// write the same bytes as the kernels (tests/codecs/cuda compares them), so training on "cuda" must
// give the same bits as training on the CPU.
#include "codecs/cuda/library/library.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "codecs/affine.h"
#include "codecs/cuda/library/host_memory.h"
#include "codecs/float_formats.h"
#include "fakecuda.h"

namespace cinch::codecs::cuda {
namespace {

/// An encode or decode that a stream will run.
struct Call {
  std::shared_ptr<const Codec> codec;
  Description what;
  std::vector<std::uint8_t> plane_bits;
  const void* source = nullptr;
  std::span<const std::byte> in;
  std::span<std::byte> out;
  void* target = nullptr;
  Result* result = nullptr;
  RandomKey key;
  Reads reads = Reads::values;

  Call(std::shared_ptr<const Codec> used, const Description& description)
      : codec(std::move(used)),
        what(description),
        plane_bits(description.plane_bits.begin(), description.plane_bits.end()) {
    what.plane_bits = plane_bits;
  }
};

void run_encode(void* context) {
  auto& call = *static_cast<Call*>(context);
  const Encoded encoded =
      call.codec->encode(call.what, call.source, call.out, call.key, serial_for);
  if (!encoded.representable) call.result->not_representable = 1;
  // Last, and not 0: the host may look at it from another thread.
  __atomic_store_n(&call.result->bytes, std::max<std::uint64_t>(encoded.bytes, 1),
                   __ATOMIC_RELEASE);
}

void run_decode(void* context) {
  auto& call = *static_cast<Call*>(context);
  if (!call.codec->decode(call.what, call.in, call.target, call.reads, serial_for)) {
    fakecuda_break("decoding what was never encoded", 719 /* cudaErrorLaunchFailure */);
  }
}

void destroy(void* context) {
  delete static_cast<Call*>(context);
}

class OnHost final : public DeviceCodec {
 public:
  explicit OnHost(std::shared_ptr<const Codec> codec) : codec_(std::move(codec)) {}

  bool accepts(const Description& what) const noexcept override { return codec_->accepts(what); }

  // Not 0, so that the fake notices scratch memory that is freed before the work has run.
  std::size_t scratch_bytes(const Description&) const noexcept override { return 256; }

  bool encode(const Description& what, const void* source, std::byte* out, Result* result,
              void* scratch, RandomKey key, Stream stream) const noexcept override {
    auto* const call = new Call(codec_, what);
    call->source = source;
    call->out = {out, codec_->encoded_bytes(what)};
    call->result = result;
    call->key = key;
    const fakecuda_range used[] = {{source, values_bytes(what)},
                                   {out, call->out.size()},
                                   {result, sizeof(Result)},
                                   {scratch, scratch_bytes(what)}};
    fakecuda_enqueue(stream, "cinch encode", run_encode, destroy, call, used, std::size(used));
    return true;
  }

  bool decode(const Description& what, std::span<const std::byte> in, void* target, Reads reads,
              void* scratch, Stream stream) const noexcept override {
    auto* const call = new Call(codec_, what);
    call->in = in;
    call->target = target;
    call->reads = reads;
    const fakecuda_range used[] = {
        {in.data(), in.size()}, {target, values_bytes(what)}, {scratch, scratch_bytes(what)}};
    fakecuda_enqueue(stream, "cinch decode", run_decode, destroy, call, used, std::size(used));
    return true;
  }

 private:
  static std::size_t values_bytes(const Description& what) {
    return static_cast<std::size_t>(what.layout.elements()) * element_size(what.type);
  }

  std::shared_ptr<const Codec> codec_;
};

std::shared_ptr<const DeviceCodec> make(const CodecSpec& spec) {
  auto codec = make_codec(spec);
  return codec == nullptr ? nullptr : std::make_shared<OnHost>(std::move(codec));
}

bool load(const DeviceCodec&, const Description&) noexcept {
  return true;
}

bool is_capturing(Stream stream) noexcept {
  return fakecuda_is_capturing(stream) != 0;
}

/// A copy of bytes. Skipped if `result` is set and says that the encoding is of use (keep_source).
struct Bytes {
  std::vector<std::byte> own;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
  const Result* result = nullptr;
  std::uint64_t below = 0;
};

bool enqueue(Bytes copy, const char* what, Stream stream) noexcept {
  auto* const bytes = new Bytes(std::move(copy));
  if (bytes->from == nullptr) bytes->from = bytes->own.data();
  const fakecuda_range used[] = {{bytes->from, bytes->bytes},
                                 {bytes->to, bytes->bytes},
                                 {bytes->result, bytes->result == nullptr ? 0 : sizeof(Result)}};
  const auto run = [](void* context) {
    const auto& b = *static_cast<const Bytes*>(context);
    if (b.result != nullptr && b.result->not_representable == 0 && b.result->bytes < b.below) {
      return;
    }
    std::memcpy(b.to, b.from, b.bytes);
  };
  fakecuda_enqueue(
      stream, what, run, [](void* context) { delete static_cast<Bytes*>(context); }, bytes, used,
      std::size(used));
  return true;
}

bool write(void* to, const void* from, std::size_t bytes, Stream stream) noexcept {
  const auto* const first = static_cast<const std::byte*>(from);
  return enqueue({{first, first + bytes}, nullptr, to, bytes}, "cinch write", stream);
}

bool keep_source(const Result* result, std::uint64_t below, const void* source, void* target,
                 std::size_t bytes, Stream stream) noexcept {
  return enqueue({{}, source, target, bytes, result, below}, "cinch keep_source", stream);
}

/// An element of `type` as a float32, and back as PyTorch rounds.
float load_element(ElementType type, const std::byte* at) {
  if (type == ElementType::float64) {
    double x;
    std::memcpy(&x, at, sizeof x);
    return static_cast<float>(x);
  }
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, element_size(type));
  if (type == ElementType::float32) return float_of_bits(bits);
  const auto half = static_cast<std::uint16_t>(bits);
  return type == ElementType::bfloat16 ? float_of_bf16(half) : float_of_f16(half);
}

void store_element(ElementType type, float x, std::byte* at) {
  const double wide = x;
  const std::uint32_t half = std::isnan(x)                  ? 0x7FFF
                             : type == ElementType::float16 ? f16_nearest(x)
                                                            : bf16_nearest(x);
  const std::uint32_t bits = type == ElementType::float32 ? float_bits(x) : half;
  const void* const from = type == ElementType::float64 ? static_cast<const void*>(&wide) : &bits;
  std::memcpy(at, from, element_size(type));
}

/// An apply_without_bias that a stream will run.
struct Smoothing {
  Smooth function;
  ElementType type;
  GroupRanges of;
  Rows rows;
  const std::byte* x;
  std::byte* y;

  /// How many groups there are up to the last of the elements.
  std::int64_t groups() const {
    const std::int64_t last = rows.first + (rows.rows - 1) * rows.stride + rows.row - 1;
    return (last / of.order.plane + 1) * of.order.groups_of_plane();
  }
};

void run_smoothing(void* context) {
  const auto& call = *static_cast<const Smoothing*>(context);
  std::vector<float> steps;
  for (std::int64_t g = 0; g < call.groups(); ++g) {
    steps.push_back(float_of_bf16(static_cast<const AffineRange*>(call.of.ranges)[g].step));
  }
  const GroupSteps of = {steps.data(), call.of.order};
  const std::size_t size = element_size(call.type);
  std::vector<float> values(static_cast<std::size_t>(call.rows.row));
  for (std::int64_t r = 0; r < call.rows.rows; ++r) {
    const std::int64_t place = r * call.rows.stride;
    const std::byte* from = call.x + static_cast<std::size_t>(place) * size;
    std::byte* to = call.y + static_cast<std::size_t>(r * call.rows.row) * size;
    for (float& value : values) {
      value = load_element(call.type, from);
      from += size;
    }
    codecs::apply_without_bias(call.function, of, call.rows.first + place, call.rows.row,
                               values.data(), values.data(), serial_for);
    for (const float value : values) {
      store_element(call.type, value, to);
      to += size;
    }
  }
}

bool apply_without_bias(Smooth function, ElementType type, const GroupRanges& of, const Rows& rows,
                        const void* x, void* y, Stream stream) noexcept {
  auto* const call = new Smoothing{
      function, type, of, rows, static_cast<const std::byte*>(x), static_cast<std::byte*>(y)};
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * element_size(type);
  };
  const fakecuda_range used[] = {
      {of.ranges, static_cast<std::size_t>(call->groups()) * sizeof(AffineRange)},
      {x, bytes((rows.rows - 1) * rows.stride + rows.row)},
      {y, bytes(rows.rows * rows.row)}};
  fakecuda_enqueue(
      stream, "cinch apply_without_bias", run_smoothing,
      [](void* context) { delete static_cast<Smoothing*>(context); }, call, used, std::size(used));
  return true;
}

/// A keep_where that a stream will run.
struct Keeping {
  std::size_t size;
  std::int64_t elements;
  const std::byte* bits;
  const std::byte* x;
  std::byte* y;
};

void run_keeping(void* context) {
  const auto& call = *static_cast<const Keeping*>(context);
  for (std::int64_t k = 0; k < call.elements; ++k) {
    const std::size_t at = static_cast<std::size_t>(k) * call.size;
    const bool kept = (static_cast<unsigned>(call.bits[k / 8]) >> (k % 8) & 1U) != 0;
    if (kept) std::memmove(call.y + at, call.x + at, call.size);
    if (!kept) std::memset(call.y + at, 0, call.size);
  }
}

bool keep_where(std::size_t size, std::int64_t elements, const std::byte* bits, const void* x,
                void* y, Stream stream) noexcept {
  auto* const call = new Keeping{size, elements, bits, static_cast<const std::byte*>(x),
                                 static_cast<std::byte*>(y)};
  const std::size_t bytes = static_cast<std::size_t>(elements) * size;
  const fakecuda_range used[] = {
      {bits, static_cast<std::size_t>((elements + 7) / 8)}, {x, bytes}, {y, bytes}};
  fakecuda_enqueue(
      stream, "cinch keep_where", run_keeping,
      [](void* context) { delete static_cast<Keeping*>(context); }, call, used, std::size(used));
  return true;
}

/// A normalize_rows that a stream will run.
struct Normalization {
  ElementType from, to;
  RowNorm norm;
  const std::byte* x;
  std::byte* y;
};

void run_normalization(void* context) {
  const auto& call = *static_cast<const Normalization*>(context);
  const RowNorm& norm = call.norm;
  for (std::int64_t i = 0; i < norm.rows * norm.row; ++i) {
    const std::int64_t row = i / norm.row;
    const std::int64_t column = i % norm.row;
    const auto at = static_cast<std::size_t>(i);
    const float x = load_element(call.from, call.x + at * element_size(call.from));
    float y = (x - (norm.mean == nullptr ? 0.0F : norm.mean[row])) * norm.rstd[row];
    if (norm.bias == nullptr) {
      y *= norm.weight == nullptr ? 1.0F : norm.weight[column];
    } else {
      y = std::fma(y, norm.weight == nullptr ? 1.0F : norm.weight[column], norm.bias[column]);
    }
    store_element(call.to, y, call.y + at * element_size(call.to));
  }
}

bool normalize_rows(ElementType from, ElementType to, const RowNorm& norm, const void* x, void* y,
                    Stream stream) noexcept {
  auto* const call = new Normalization{from, to, norm, static_cast<const std::byte*>(x),
                                       static_cast<std::byte*>(y)};
  const auto elements = static_cast<std::size_t>(norm.rows * norm.row);
  const std::size_t rows = static_cast<std::size_t>(norm.rows) * sizeof(float);
  const std::size_t columns = static_cast<std::size_t>(norm.row) * sizeof(float);
  const fakecuda_range used[] = {{x, elements * element_size(from)},
                                 {y, elements * element_size(to)},
                                 {norm.mean, norm.mean == nullptr ? 0 : rows},
                                 {norm.rstd, rows},
                                 {norm.weight, norm.weight == nullptr ? 0 : columns},
                                 {norm.bias, norm.bias == nullptr ? 0 : columns}};
  fakecuda_enqueue(
      stream, "cinch normalize_rows", run_normalization,
      [](void* context) { delete static_cast<Normalization*>(context); }, call, used,
      std::size(used));
  return true;
}

/// A normalize_channels that a stream will run.
struct ChannelNormalization {
  ElementType type;
  ChannelNorm norm;
  const std::byte* x;
  std::byte* y;

  std::int64_t elements() const {
    return norm.order.outer * norm.order.channels * norm.order.inner;
  }
};

// Rounds as the CPU's batch norm does, which the fake's forward calls (executor/fused.cpp).
void run_channel_normalization(void* context) {
  const auto& call = *static_cast<const ChannelNormalization*>(context);
  const ChannelNorm& norm = call.norm;
  const std::size_t size = element_size(call.type);
  const auto rounded = [&](float x) {
    std::byte bits[sizeof(double)];
    store_element(call.type, x, bits);
    return load_element(call.type, bits);
  };
  for (std::int64_t i = 0; i < call.elements(); ++i) {
    const std::int64_t c = i / norm.order.inner % norm.order.channels;
    const std::size_t at = static_cast<std::size_t>(i) * size;
    const float scale = norm.rstd[c] * (norm.weight == nullptr ? 1.0F : norm.weight[c]);
    const float shift = std::fma(-norm.mean[c], scale, norm.bias == nullptr ? 0.0F : norm.bias[c]);
    float y = std::fma(load_element(call.type, call.x + at), scale, shift);
    if (norm.added != nullptr) {
      y = rounded(y) + load_element(call.type, static_cast<const std::byte*>(norm.added) + at);
    }
    const bool kept = norm.signs == nullptr
                          ? !(y <= 0)
                          : (static_cast<unsigned>(norm.signs[i / 8]) >> (i % 8) & 1U) != 0;
    store_element(call.type, norm.relu && !kept ? 0.0F : y, call.y + at);
  }
}

bool normalize_channels(ElementType type, const ChannelNorm& norm, const void* x, void* y,
                        Stream stream) noexcept {
  auto* const call = new ChannelNormalization{type, norm, static_cast<const std::byte*>(x),
                                              static_cast<std::byte*>(y)};
  const std::size_t bytes = static_cast<std::size_t>(call->elements()) * element_size(type);
  const std::size_t channels = static_cast<std::size_t>(norm.order.channels) * sizeof(float);
  const auto signs = static_cast<std::size_t>((call->elements() + 7) / 8);
  const fakecuda_range used[] = {{x, bytes},
                                 {y, bytes},
                                 {norm.mean, channels},
                                 {norm.rstd, channels},
                                 {norm.weight, norm.weight == nullptr ? 0 : channels},
                                 {norm.bias, norm.bias == nullptr ? 0 : channels},
                                 {norm.added, norm.added == nullptr ? 0 : bytes},
                                 {norm.signs, norm.signs == nullptr ? 0 : signs}};
  fakecuda_enqueue(
      stream, "cinch normalize_channels", run_channel_normalization,
      [](void* context) { delete static_cast<ChannelNormalization*>(context); }, call, used,
      std::size(used));
  return true;
}

/// An apply_program that a stream will run.
struct Running {
  Program program;
  std::int64_t elements;
  ElementType type;
  std::byte* y;
};

float run_program(const Running& call, std::int64_t i) {
  using Op = Program::Op;
  using Operand = Program::Operand;
  const auto at = static_cast<std::size_t>(i);
  float value = 0;
  float saved = 0;
  for (std::int32_t s = 0; s < call.program.step_count; ++s) {
    const Program::Step& step = call.program.steps[s];
    float operand = step.number;
    if (step.operand == Operand::tensor) {
      const Program::Tensor& of = call.program.tensors[step.tensor];
      operand = load_element(of.type,
                             static_cast<const std::byte*>(of.data) + at * element_size(of.type));
    }
    if (step.operand == Operand::saved) operand = saved;
    if (step.op == Op::load) value = operand;
    if (step.op == Op::save) saved = value;
    if (step.op == Op::add) value += operand;
    if (step.op == Op::subtract) value -= operand;
    if (step.op == Op::subtract_from) value = operand - value;
    if (step.op == Op::multiply) value *= operand;
    if (step.op == Op::square) value *= value;
    if (step.op == Op::cube) value = value * value * value;
    if (step.op == Op::relu && value <= 0) value = 0;
    if (step.op == Op::save) continue;
    std::byte bits[sizeof(double)];
    store_element(step.rounds_to, value, bits);
    value = load_element(step.rounds_to, bits);
  }
  return value;
}

void run_programs(void* context) {
  const auto& call = *static_cast<const Running*>(context);
  for (std::int64_t i = 0; i < call.elements; ++i) {
    store_element(call.type, run_program(call, i),
                  call.y + static_cast<std::size_t>(i) * element_size(call.type));
  }
}

// Not those with tanh, which PyTorch computes otherwise on the host.
bool apply_program(const Program& program, std::int64_t elements, ElementType type, void* y,
                   Stream stream) noexcept {
  const std::span steps(program.steps, static_cast<std::size_t>(program.step_count));
  for (const Program::Step& step : steps) {
    if (step.op == Program::Op::tanh) return false;
  }
  auto* const call = new Running{program, elements, type, static_cast<std::byte*>(y)};
  const auto bytes = [&](ElementType of) {
    return static_cast<std::size_t>(elements) * element_size(of);
  };
  fakecuda_range used[Program::most_tensors + 1] = {{y, bytes(type)}};
  for (std::int32_t t = 0; t < program.tensor_count; ++t) {
    used[t + 1] = {program.tensors[t].data, bytes(program.tensors[t].type)};
  }
  fakecuda_enqueue(
      stream, "cinch apply_program", run_programs,
      [](void* context) { delete static_cast<Running*>(context); }, call, used,
      static_cast<std::size_t>(program.tensor_count) + 1);
  return true;
}

constexpr Library library = {library_abi,
                             make,
                             load,
                             is_capturing,
                             make_stream,
                             allocate_pinned,
                             copy,
                             write,
                             keep_source,
                             apply_without_bias,
                             keep_where,
                             normalize_rows,
                             normalize_channels,
                             apply_program,
                             progress,
                             synchronize};

}  // namespace
}  // namespace cinch::codecs::cuda

extern "C" __attribute__((visibility("default"))) const cinch::codecs::cuda::Library*
cinch_cuda_library() {
  return &cinch::codecs::cuda::library;
}
