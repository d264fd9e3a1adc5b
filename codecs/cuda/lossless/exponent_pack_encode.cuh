// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "codecs/cuda/blocks/running_total.cuh"
#include "codecs/cuda/elements/bits.cuh"
#include "codecs/cuda/lossless/exponent_pack_piece.cuh"

namespace cinch::codecs::cuda {

/// How often each top occurs in a block's sample; then, of each top, how many of the sample are
/// below it. What follows the last one lets windows reach beyond it.
using PackSample = std::uint32_t[256 + (1 << kPackMaxBits)];

/// Which of the stretches 8 * eight to 8 * eight + 7 is sampled.
constexpr int sampled_of(int eight) {
  return -eight & 7;
}
static_assert([] {
  for (int i = 0; i < kPackElements / kPackStretch; ++i) {
    if (is_sampled(i) != (i % 8 == sampled_of(i / 8))) return false;
  }
  return true;
}());

/// Counts the tops of those of a warp's 32 pieces that are sampled, an element a lane. All lanes
/// must call it. @param nonzeros a bit for each element of the calling lane's piece
template <typename T>
__device__ __forceinline__ void count_sample(const PackPiece<T>& x, unsigned nonzeros, int piece,
                                             PackSample& sample) {
  constexpr int kLanes = kPackStretch / kStretch;  // of a stretch
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int from = kLanes * sampled_of(piece / int{kWarp}) + lane / kStretch;
  const std::uint32_t* const tops = x.part(PackPiece<T>::kTop);
  const std::uint32_t low = __shfl_sync(kAllLanes, tops[0], from);
  const std::uint32_t high = __shfl_sync(kAllLanes, tops[1], from);
  const unsigned held = __shfl_sync(kAllLanes, nonzeros, from);
  const std::uint32_t top = (lane % kStretch < 4 ? low : high) >> (8 * (lane % 4)) & 0xFFU;
  if ((held >> (lane % kStretch) & 1U) != 0) atomicAdd(&sample[top], 1U);
}

/// Sets the base and bits of `block` that hold the sample in the fewest bits. All threads of the
/// block must call it; it has barriers.
/// @param least ~0; becomes the key of the choice
__device__ __forceinline__ void choose_codes(PackSample& sample, std::uint32_t& least,
                                             PackBlock& block) {
  static_assert(kPackThreads == 256);
  const unsigned t = threadIdx.x;
  if (t < kWarp) {
    constexpr int kEach = 256 / kWarp;
    std::uint32_t* const own = sample + kEach * t;
    std::uint32_t counts[kEach];
    std::uint32_t sum = 0;
    for (int i = 0; i < kEach; ++i) sum += counts[i] = own[i];
    const std::uint32_t up_to_own = warp_sum(sum);
    std::uint32_t below = up_to_own - sum;
    for (int i = 0; i < kEach; ++i) {
      own[i] = below;
      below += counts[i];
    }
    const std::uint32_t all = __shfl_sync(kAllLanes, up_to_own, kWarp - 1);
    for (unsigned i = 256 + t; i < sizeof(PackSample) / sizeof(*own); i += kWarp) sample[i] = all;
  }
  __syncthreads();
  // The smallest key wins: cost, then bits, then base. This thread tries its number as the base. A
  // window that reaches beyond 255 loses to the one that ends there: that holds no fewer, and has a
  // smaller base.
  const auto sampled = static_cast<int>(sample[256]);
  std::uint32_t best = ~0U;
#pragma unroll
  for (int bits = 0; bits <= kPackMaxBits; ++bits) {
    const auto inside = static_cast<int>(sample[t + pack_window(bits)] - sample[t]);
    const std::uint32_t key =
        (pack_cost(bits, sampled, inside) << 16) + (static_cast<std::uint32_t>(bits) << 8) + t;
    best = key < best ? key : best;
  }
  best = __reduce_min_sync(kAllLanes, best);
  if (t % kWarp == 0) atomicMin(&least, best);
  __syncthreads();
  block.bits = static_cast<std::uint8_t>(least >> 8 & 0xFFU);
  block.base = static_cast<std::uint8_t>(least & 0xFFU);
}

/// Tops as codes, four at a time.
class PackCoder {
 public:
  __device__ __forceinline__ explicit PackCoder(const PackBlock& block)
      : base_(block.base * kEachByte), window_(static_cast<unsigned>(pack_window(block.bits))) {}

  /// The codes of the tops. @param escapes the high bit of each byte is set where the top has none
  __device__ __forceinline__ std::uint32_t code(std::uint32_t tops, std::uint32_t& escapes) const {
    // Differences of bytes, without borrows between them.
    const std::uint32_t d =
        ((tops | kHighBits) - (base_ & ~kHighBits)) ^ ((tops ^ ~base_) & kHighBits);
    escapes = d | at_least(d & ~kHighBits, window_);
    const std::uint32_t all = spread_high_bits(escapes);
    return select_bits(all, window_ * kEachByte, d);
  }

 private:
  std::uint32_t base_;
  unsigned window_;
};

/// Stores the elements of a piece that are held in the block's rests, and their codes.
/// @param codes of the piece @param bits a bit for each element that is held
/// @param k the first one's place among the block's `held`
template <typename T, bool kHalved>
__device__ __forceinline__ void store_piece(const PackPiece<T>& x, const std::uint32_t (&codes)[2],
                                            unsigned bits, int k, int held, std::byte* rests,
                                            std::uint8_t* code_bytes) {
  if (held == kPackElements) {
    for_each_part<T, kHalved>(kPackElements, [&]<typename P>(P*, int begin, int bit) {
      auto* const to = reinterpret_cast<uint2*>(rests + begin + k * int{sizeof(P)});
#pragma unroll
      for (unsigned i = 0; i < sizeof(P); ++i) {
        to[i] = uint2{x.part(bit)[2 * i], x.part(bit)[2 * i + 1]};
      }
    });
    *reinterpret_cast<uint2*>(code_bytes + k) = uint2{codes[0], codes[1]};
    return;
  }
#pragma unroll
  for (int j = 0; j < kStretch; ++j) {
    if ((bits >> j & 1U) == 0) continue;
    for_each_part<T, kHalved>(held, [&]<typename P>(P*, int begin, int bit) {
      reinterpret_cast<P*>(rests + begin)[k] = static_cast<P>(x.template get<P>(bit, j));
    });
    code_bytes[k] = static_cast<std::uint8_t>(codes[j / 4] >> (8 * (j % 4)));
    ++k;
  }
}

/// Stores codes, which are a byte each, in the block's bits each, eight a thread at a time.
__device__ __forceinline__ void join_all_codes(const PackBlock& block, const std::uint64_t* codes,
                                               std::byte* to) {
  for (int i = static_cast<int>(threadIdx.x); kStretch * i < block.held; i += int{kPackThreads}) {
    const int bytes = bytes_of_codes(block, kStretch * i);
    const std::uint64_t joined = join_codes(codes[i], block.bits);
#pragma unroll
    for (int b = 0; b < kPackMaxBits; ++b) {
      if (b < bytes) to[i * block.bits + b] = static_cast<std::byte>(joined >> (8 * b));
    }
  }
}

/// What the threads of a block work in.
template <typename T>
struct PackEncoding {
  PackMemory<T> memory;
  PackSample sample;
  std::uint32_t least;
  std::uint32_t is_wide;  ///< 1 if an element has a lower half that isn't 0
};

/// Encodes a block of elements, in shared memory. All threads of the block must call its functions,
/// which have barriers.
template <typename T>
class PackEncoder {
 public:
  /// Loads the elements, and chooses how they are held.
  /// @pre `memory.sample` and `is_wide` are 0 and `least` is ~0, and all threads have seen that
  __device__ __forceinline__ PackEncoder(const PackJob& job, std::int64_t turn, const void* source,
                                         PackEncoding<T>& memory)
      : count_(job.elements_of(turn)) {
    std::uint32_t lower = 0;
#pragma unroll
    for (int p = 0; p < kPackPieces; ++p) {
      const int piece = piece_of(p);
      x_[p].from_elements(PieceElements<T>(job, source, turn, piece, count_));
      lower |= x_[p].lower_halves();
      held_[p] = x_[p].nonzeros();
      count_sample(x_[p], held_[p], piece, memory.sample);
    }
    if (lower != 0) memory.is_wide = 1;
    place_elements(memory.is_wide);
    choose_codes(memory.sample, memory.least, block);
    code_elements();
    const int whole = count_ * static_cast<int>(sizeof(T));
    if (PackSections(block, count_, sizeof(T)).size >= whole) block = PackBlock();
  }

  __device__ __forceinline__ PackSections sections() const {
    return {block, count_, static_cast<int>(sizeof(T))};
  }

  /// Puts the block's bytes together.
  __device__ __forceinline__ void store(PackMemory<T>& memory) const {
    auto* const to = reinterpret_cast<std::byte*>(memory.bytes);
    if (block.form == PackForm::whole) return store_elements(to);
    const PackSections at = sections();
    const auto t = static_cast<int>(threadIdx.x);
    auto* const codes = reinterpret_cast<std::uint8_t*>(memory.tops);
    with_halved<T>(block, [&]<bool kHalved>(std::bool_constant<kHalved>) {
#pragma unroll
      for (int p = 0; p < kPackPieces; ++p) {
        store_piece<T, kHalved>(x_[p], codes_[p], held_[p], begin_[p], block.held, to + at.rests,
                                codes);
      }
    });
#pragma unroll
    for (int p = 0; p < kPackPieces; ++p) {
      const int piece = piece_of(p);
      if (piece < at.rests) to[piece] = static_cast<std::byte>(held_[p]);
      const std::uint32_t* const tops = x_[p].part(PackPiece<T>::kTop);
      std::byte* escape = to + at.escapes + escapes_before_[p];
      for (unsigned left = escapes_[p]; left != 0; left &= left - 1) {
        const int j = __ffs(static_cast<int>(left)) - 1;
        *escape++ =
            static_cast<std::byte>(permute_bytes(tops[0], tops[1], static_cast<unsigned>(j)));
      }
    }
    if (t < at.size - at.end) to[at.end + t] = std::byte{0};
    if (t < (kStretch - block.held % kStretch) % kStretch) codes[block.held + t] = 0;
    __syncthreads();
    join_all_codes(block, memory.tops, to + at.codes);
  }

  PackBlock block;

 private:
  /// Chooses which half of elements and whether zeros are left out, and finds the places of what is
  /// held. @param is_wide may be read behind the next barrier
  __device__ __forceinline__ void place_elements(const std::uint32_t& is_wide) {
    const PieceSums nonzeros = sum_bits(held_);
    if (can_be_halved(sizeof(T))) block.halved = static_cast<std::uint8_t>(1U - is_wide);
    const bool leaves_out =
        leaves_zeros_out(count_ - nonzeros.total, count_, block.held_size(sizeof(T)));
    block.form = leaves_out ? PackForm::nonzeros : PackForm::packed;
    block.held = static_cast<std::uint16_t>(leaves_out ? nonzeros.total : count_);
#pragma unroll
    for (int p = 0; p < kPackPieces; ++p) {
      const int piece = piece_of(p);
      begin_[p] = leaves_out ? nonzeros.before[p] : piece * kStretch;
      if (!leaves_out) held_[p] = first_bits(in_piece(piece, count_));
    }
  }

  /// Makes codes of the tops, and finds the places of those that have none.
  __device__ __forceinline__ void code_elements() {
    const PackCoder coder(block);
#pragma unroll
    for (int p = 0; p < kPackPieces; ++p) {
      const std::uint32_t* const tops = x_[p].part(PackPiece<T>::kTop);
      std::uint32_t high_bits[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) codes_[p][i] = coder.code(tops[i], high_bits[i]);
      escapes_[p] = gather_high_bits(high_bits[0], high_bits[1]) & held_[p];
    }
    const PieceSums escapes = sum_bits(escapes_);
    block.escapes = static_cast<std::uint16_t>(escapes.total);
#pragma unroll
    for (int p = 0; p < kPackPieces; ++p) escapes_before_[p] = escapes.before[p];
  }

  __device__ __forceinline__ void store_elements(std::byte* to) const {
#pragma unroll
    for (int p = 0; p < kPackPieces; ++p) {
      PieceElements<T> elements;
      x_[p].to_elements(elements);
      auto* const words = reinterpret_cast<std::uint32_t*>(to) + piece_of(p) * int{2 * sizeof(T)};
#pragma unroll
      for (unsigned i = 0; i < 2 * sizeof(T); ++i) words[i] = elements.words[i];
    }
  }

  int count_;
  PackPiece<T> x_[kPackPieces];
  std::uint32_t codes_[kPackPieces][2];
  unsigned held_[kPackPieces];     ///< a bit for each element
  unsigned escapes_[kPackPieces];  ///< likewise
  int begin_[kPackPieces];         ///< place of the first element that is held
  int escapes_before_[kPackPieces];
};

/// Encodes blocks until there is none left: any number of blocks of threads will do.
template <typename T>
__global__ void __launch_bounds__(kPackThreads)
    exponent_pack_encode(const PackJob job, const void* source, RunningTotal* total, std::byte* out,
                         Result* result) {
  __shared__ PackEncoding<T> memory;
  const unsigned t = threadIdx.x;
  while (true) {
    memory.sample[t] = 0;
    if (t == 0) {
      memory.least = ~0U;
      memory.is_wide = 0;
    }
    const std::int64_t turn = take_turn(total);
    if (turn >= job.at.count) return;
    const PackEncoder<T> encoder(job, turn, source, memory);
    const PackSections at = encoder.sections();
    if (t == 0) publish_own(total->turns(), turn, at.size);
    encoder.store(memory.memory);
    const std::int64_t before = add_to_total(total, turn, at.size, true);
    if (t == 0) {
      reinterpret_cast<std::int64_t*>(out + PackLayout::kIndex)[turn] = before;
      reinterpret_cast<PackBlock*>(out + job.at.blocks)[turn] = encoder.block;
      if (turn == job.at.count - 1) {
        job.write_header(job.at.payload + before + at.size, out, result);
      }
    }
    auto* const to = reinterpret_cast<std::uint64_t*>(out + job.at.payload + before);
    for (int i = static_cast<int>(t); i < at.size / 8; i += int{kPackThreads}) {
      to[i] = memory.memory.bytes[i];
    }
  }
}

/// Encodes an empty tensor: a header.
static __global__ void exponent_pack_empty(const PackJob job, std::byte* out, Result* result) {
  job.write_header(job.at.payload, out, result);
}

}  // namespace cinch::codecs::cuda
