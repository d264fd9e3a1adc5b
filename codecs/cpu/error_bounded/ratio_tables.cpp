// SPDX-License-Identifier: Apache-2.0
#include "codecs/cpu/error_bounded/ratio_tables.h"

namespace cinch::codecs::cpu {

EncodeTables::EncodeTables(const RatioPlan& plan) noexcept : runs(plan.runs) {
  make_codes(plan.value_lengths, values);
  for (std::int32_t r = -kTableMagnitude; r < kTableMagnitude; ++r) {
    differences[r + kTableMagnitude] = ShortToken(value_token(r));
  }
  if (!runs) return;
  std::array<HuffmanCode, kRunSymbols> codes;
  make_codes(plan.run_lengths, codes);
  for (std::uint32_t n = 0; n < run_lengths.size(); ++n) {
    const int bucket = bucket_of(n);
    run_lengths[n] = ShortToken(make_token(codes[bucket], bucket, n));
  }
}

DecodeTables::DecodeTables(const RatioPlan& plan) noexcept : runs(plan.runs) {
  const auto number = [](std::int32_t base, int bucket, unsigned length) {
    const auto further = static_cast<unsigned>(bucket_bits(bucket));
    const bool is_quick = length + further <= Lookup::kQuickBits;
    return Lookup(base, length, further, is_quick ? Lookup::quick : Lookup::number);
  };
  values.fill(plan.value_lengths, [&](int symbol, unsigned length) {
    if (symbol >= kEscapeRaw) return Lookup(symbol, length, 0, Lookup::escape);
    const int bucket = bucket_of_symbol(symbol);
    const auto base = static_cast<std::int32_t>(bucket_base(bucket));
    return number(symbol % 2 != 0 ? base : -base, bucket, length);
  });
  if (!runs) return;
  run_lengths.fill(plan.run_lengths, [&](int bucket, unsigned length) {
    return number(static_cast<std::int32_t>(bucket_base(bucket)), bucket, length);
  });
}

}  // namespace cinch::codecs::cpu
