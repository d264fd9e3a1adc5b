// SPDX-License-Identifier: Apache-2.0
#include "hooks/torch/stash/holding/host_holding.h"

#include <cstring>
#include <string>
#include <utility>

#include "hooks/torch/process/parallel.h"
#include "hooks/torch/program/below_program.h"
#include "hooks/torch/stash/adapting/round_trip.h"
#include "hooks/torch/stash/entry/entry_work.h"
#include "hooks/torch/stash/recipes/host_arithmetic.h"
#include "hooks/torch/stash/recipes/nearness.h"
#include "hooks/torch/stash/recipes/pointwise.h"
#include "policy/adapting/plane_ranges.h"

namespace cinch::hooks {
namespace {

constexpr std::size_t page = 4096;

std::span<const std::byte> encoded_bytes(const Entry& entry) {
  return {static_cast<const std::byte*>(entry.encoded.get()), entry.encoded_bytes};
}

std::string cant_decode(const Plan::Candidate& by) {
  return "cinch: a saved tensor encoded by '" + std::string(by.codec->name()) +
         "' can't be decoded: there is no memory for that, or this is a defect of Cinch";
}

// The signs of a derived entry: `in_source`, if that is not null, else its own mask's; null: none.
const std::byte* mask_of(const Entry& entry, const c10::DataPtr& in_source) {
  const void* const signs = in_source.get() != nullptr ? in_source.get() : entry.encoded.get();
  return static_cast<const std::byte*>(signs);
}

// Whether the source's values would be decoded for one reader only: they are not decoded yet, and
// are neither measured nor, as exact ones are, kept for the source's own reader.
// pre: source.mutex() is held
bool is_decoded_for_recipes(const Entry& source) {
  if (source.state != Entry::State::encoded || source.sample != nullptr) return false;
  if (!held_by(source).approximates) return false;
  constexpr auto values = static_cast<std::size_t>(codecs::Reads::values);
  return source.decoded == nullptr || source.decoded->alive[values].expired();
}

}  // namespace

std::string_view HostHolding::encode(Entry& entry, c10::Storage& freed,
                                     codecs::ParallelFor parallel_for) {
  const Plan& plan = entry.plan();
  if (plan.action == policy::Decision::Action::drop) return drop(entry, freed), "";
  if (derivation_.let_go(entry, freed, parallel_for)) return {};
  const auto done = plan.first_that_serves(
      [&](std::size_t i) { return encode_as(entry, i, freed, parallel_for); });
  return done ? *done : reason_not_to_encode(plan);
}

// Encodes by one candidate. Returns what encode() shall; nothing where the candidate doesn't serve.
std::optional<std::string_view> HostHolding::encode_as(Entry& entry, std::size_t index,
                                                       c10::Storage& freed,
                                                       codecs::ParallelFor parallel_for) {
  const Plan::Candidate& candidate = entry.plan().candidates[index];
  const codecs::RandomKey key = {policy_.settings().seed, entry.id, entry.step};
  c10::DataPtr buffer;
  std::size_t room = 0;
  const auto give = [&](std::size_t bytes) {
    room = bytes;
    buffer = buffers_.take(bytes);
    return static_cast<std::byte*>(buffer.get());
  };
  const Stopwatch watch;
  measure_planes(candidate, entry, /*always=*/true);
  const auto what = with_sides(candidate, described(candidate, entry), entry.sides.get());
  if (!what) return std::nullopt;
  const codecs::Encoded result =
      candidate.codec->encode_into(*what, entry.raw.data(), codecs::Room(give), key, parallel_for);
  if (room != 0 && buffer.get() == nullptr) return no_memory;
  const bool serves = result.bytes < entry.raw_bytes || candidate.is_copy();
  if (!result.representable || !serves) return std::nullopt;
  // Where the encoded size is below its upper bound, hold a buffer of just that size.
  if (result.bytes + page <= room) {
    c10::DataPtr exact = buffers_.take(result.bytes);
    if (result.bytes != 0 && exact.get() == nullptr) return no_memory;
    std::memcpy(exact.get(), buffer.get(), result.bytes);
    buffer = std::move(exact);
  }
  hold_encoded(entry, std::move(buffer), result.bytes);
  entry.sides.reset();
  entry.candidate = static_cast<std::uint8_t>(index);
  entry.state = Entry::State::encoded;
  freed = std::move(entry.raw);
  if (candidate.approximates) looks_.keep_sample(entry, freed);
  count(entry, *candidate.totals, result.bytes, watch.nanoseconds());
  return std::string_view();
}

c10::Storage HostHolding::decode(Entry& entry, codecs::Reads reads) {
  return decode(entry, reads, torch_parallel_for);
}

c10::Storage HostHolding::decode_ahead(Entry& entry, codecs::Reads reads) {
  return decode(entry, reads, codecs::serial_for);
}

c10::Storage HostHolding::decode(Entry& entry, codecs::Reads reads,
                                 codecs::ParallelFor parallel_for) {
  const bool nothing = entry.state == Entry::State::dropped || reads == codecs::Reads::nothing;
  if (nothing) return without_values(entry);
  c10::DataPtr data = buffers_.take(entry.raw_bytes);
  TORCH_CHECK(data.get() != nullptr, "cinch: out of memory: can't allocate ", entry.raw_bytes,
              " bytes to decode a saved tensor");
  const Plan::Candidate& candidate = held_by(entry);
  const Stopwatch watch;
  const codecs::Description what = described(candidate, entry);
  const bool decoded =
      candidate.codec->decode(what, encoded_bytes(entry), data.get(), reads, parallel_for);
  TORCH_CHECK(decoded, cant_decode(candidate));
  count_reading(entry, *candidate.totals, watch);
  return storage_of(std::move(data), entry.raw_bytes);
}

c10::Storage HostHolding::without_values(const Entry& entry) {
  c10::DataPtr zeros = zero_pages(entry.raw_bytes);
  TORCH_CHECK(zeros.get() != nullptr, "cinch: out of memory: can't allocate ", entry.raw_bytes,
              " bytes to decode a saved tensor");
  return storage_of(std::move(zeros), entry.raw_bytes);
}

bool HostHolding::encode_mask(Entry& entry, codecs::ParallelFor parallel_for) {
  const std::optional<Plan::Candidate>& mask = entry.plan().mask;
  if (!mask) return true;
  c10::DataPtr buffer = buffers_.take(mask->bound);
  if (buffer.get() == nullptr) return false;
  const codecs::Encoded result =
      mask->codec->encode(mask->what, entry.raw.data(),
                          {static_cast<std::byte*>(buffer.get()), mask->bound}, {}, parallel_for);
  if (!result.representable) return false;
  hold_encoded(entry, std::move(buffer), result.bytes);
  return true;
}

SourceErrors HostHolding::errors_of(Entry& entry) {
  const EntryWork work(entry);
  return SourceErrors::of(entry);
}

c10::Storage HostHolding::compute(Entry& entry, std::span<const void* const> values,
                                  std::span<const SourceErrors> errors, at::Tensor& other) {
  c10::DataPtr data = buffers_.take(entry.raw_bytes);
  TORCH_CHECK(data.get() != nullptr, "cinch: out of memory: can't allocate ", entry.raw_bytes,
              " bytes to compute a saved tensor");
  c10::DataPtr signs;
  if (entry.recipe->signs_in_source) {
    const EntryWork work(*entry.recipe->sources()[0].entry);
    signs = signs_in_source(entry);
  }
  entry.recipe->compute(host_arithmetic(), values, mask_of(entry, signs), data.get(), errors,
                        &other);
  return storage_of(std::move(data), entry.raw_bytes);
}

c10::Storage HostHolding::compute_in_one_pass(Entry& entry) {
  const Recipe& recipe = *entry.recipe;
  if (!is_pointwise(recipe)) return {};
  Entry& source = *recipe.sources()[0].entry;
  const EntryWork work(source);
  if (!is_decoded_for_recipes(source)) return {};
  SourceErrors errors;
  if (needs_errors(recipe)) {
    errors = SourceErrors::of(source);
    if (!errors.are_even()) return {};
  }
  c10::DataPtr data = buffers_.take(entry.raw_bytes);
  TORCH_CHECK(data.get() != nullptr, "cinch: out of memory: can't allocate ", entry.raw_bytes,
              " bytes to compute a saved tensor");
  const c10::DataPtr signs = signs_in_source(entry);
  const std::byte* const mask = mask_of(entry, signs);
  auto* const values = static_cast<float*>(data.get());
  const auto apply = [&](std::int64_t begin, std::int64_t end) {
    apply_pointwise(recipe, mask, errors, begin, end, values);
  };
  const Plan::Candidate& held = held_by(source);
  const bool decoded = held.codec->decode_with(described(held, source), encoded_bytes(source),
                                               values, codecs::Epilogue(apply), torch_parallel_for);
  TORCH_CHECK(decoded, cant_decode(held));
  return storage_of(std::move(data), entry.raw_bytes);
}

// The signs of a derived entry that are a part of its source's codes, as its mask would hold them;
// null where they are not. pre: the source's mutex is held
c10::DataPtr HostHolding::signs_in_source(const Entry& entry) {
  if (!entry.recipe->signs_in_source || !entry.plan().mask) return {};
  Entry& source = *entry.recipe->sources()[0].entry;
  const Plan::Candidate& mask = *entry.plan().mask;
  c10::DataPtr bits = buffers_.take(mask.bound);
  TORCH_CHECK(bits.get() != nullptr, "cinch: out of memory: can't allocate ", mask.bound,
              " bytes to decode a saved tensor's signs");
  const std::span<std::byte> out(static_cast<std::byte*>(bits.get()), mask.bound);
  const Plan::Candidate& held = held_by(source);
  if (!held.codec->decode_sign_bits(described(held, source), encoded_bytes(source), out,
                                    torch_parallel_for)) {
    const c10::Storage signs = decode(source, codecs::Reads::sign);
    mask.codec->encode(mask.what, signs.data(), out, {}, torch_parallel_for);
  }
  return bits;
}

Proofs::Found HostHolding::compare(Recipe& recipe, std::span<const void* const> values,
                                   const at::Tensor& actual, bool near_serves) {
  const c10::DataPtr computed = buffers_.take(recipe.bytes());
  if (computed.get() == nullptr) return {Proofs::Comparison::not_made};
  const Stopwatch watch;
  recipe.compute(host_arithmetic(), values, nullptr, computed.get());
  recipe.nanoseconds = watch.nanoseconds();
  if (std::memcmp(computed.get(), actual.const_data_ptr(), recipe.bytes()) == 0) {
    return {Proofs::Comparison::equal};
  }
  const BelowProgram guard;
  const Arithmetic& arithmetic = host_arithmetic();
  const Layout flat = contiguous({recipe.elements});
  const auto flattened = [&](const void* data) { return arithmetic.blob(data, flat, recipe.type); };
  const bool near =
      near_serves &&
      are_near(flattened(computed.get()), flattened(actual.const_data_ptr())).item<bool>();
  return {near ? Proofs::Comparison::near : Proofs::Comparison::different};
}

std::optional<ValueError> HostHolding::error_of(Entry& entry, const c10::Storage& decoded) {
  const codecs::ElementType type = entry.plan().candidates[entry.candidate].what.type;
  const GuardSample& sample = *entry.sample;
  if (!sample.part) return value_error(sample.exact.data(), decoded.data(), type, entry.raw_bytes);
  std::vector<std::byte> part(sample.exact.nbytes());
  sample.part->take(decoded.data(), part);
  return value_error(sample.exact.data(), part.data(), type, part.size());
}

std::vector<float> HostHolding::plane_ranges(const Plan::Candidate& candidate, const Entry& entry) {
  return policy::plane_ranges(candidate.what, entry.raw.data(), candidate.group);
}

c10::Storage HostHolding::try_out(const Entry& entry, const c10::Storage& exact,
                                  const Plan::Candidate& candidate, codecs::RandomKey key) {
  auto result = round_trip(candidate, exact.data(), entry.raw_bytes, codecs::Reads::values, key,
                           buffers_, torch_parallel_for);
  return result ? storage_of(std::move(result->decoded), entry.raw_bytes) : c10::Storage();
}

void HostHolding::note_size(Planner& planner, const Entry& entry) {
  planner.note_size(entry, entry.encoded_bytes);
}

void HostHolding::settle_now(std::span<Entry* const> ready, int /*device*/, std::size_t /*bytes*/) {
  for (Entry* entry : ready) {
    keeper_.settle(*entry, torch_parallel_for, EntryKeeper::When::room);
  }
}

}  // namespace cinch::hooks
