// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace cinch::telemetry {

/// A word of shared memory.
using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

/// Whether a block of shared memory is complete (its maker stores the ready word last) and of the
/// version that this program knows.
template <class Block>
bool is_ready(const Block& block) noexcept {
  return block.ready.load(std::memory_order_acquire) == 1 &&
         block.magic.load(std::memory_order_relaxed) == Block::magic_value &&
         block.version.load(std::memory_order_relaxed) == Block::version_value;
}

/// The default `step`, which is called between any two stores; tests kill the process there.
struct NoStep {
  void operator()() const noexcept {}
};

/// A value that one thread writes; readers, also in other processes, get it whole or not at all.
/// A sequence lock over atomic words, with release stores and acquire loads instead of fences:
/// the same instructions on x86, and ThreadSanitizer understands them.
template <typename T>
class Slot {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0 && alignof(T) == 8);
  using Words = std::array<std::uint64_t, sizeof(T) / 8>;

 public:
  /// Never waits. @pre one thread writes at a time
  template <typename Step = NoStep>
  void store(const T& value, Step step = {}) noexcept {
    const auto words = std::bit_cast<Words>(value);
    const std::uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version | 1, std::memory_order_relaxed);  // a killed writer may have left it odd
    step();
    for (std::size_t i = 0; i < words.size(); ++i) {
      words_[i].store(words[i], std::memory_order_release);
      step();
    }
    version_.store((version | 1) + 1, std::memory_order_release);
    step();
  }

  /// As store(), from any thread. Returns false and changes nothing while another thread writes.
  template <typename Step = NoStep>
  bool try_store(const T& value, Step step = {}) noexcept {
    std::uint64_t version = version_.load(std::memory_order_relaxed);
    if ((version & 1) != 0 ||
        !version_.compare_exchange_strong(version, version + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      return false;
    }
    step();
    const auto words = std::bit_cast<Words>(value);
    for (std::size_t i = 0; i < words.size(); ++i) {
      words_[i].store(words[i], std::memory_order_release);
      step();
    }
    version_.store(version + 2, std::memory_order_release);
    step();
    return true;
  }

  /// False when the slot was never written, or was being written at each of `tries` attempts.
  bool load(T& value, int tries = 64) const noexcept {
    for (; tries > 0; --tries) {
      const std::uint64_t before = version_.load(std::memory_order_acquire);
      if (before == 0) return false;
      if ((before & 1) != 0) continue;
      Words words;
      for (std::size_t i = 0; i < words.size(); ++i) {
        words[i] = words_[i].load(std::memory_order_acquire);
      }
      if (version_.load(std::memory_order_relaxed) != before) continue;
      value = std::bit_cast<T>(words);
      return true;
    }
    return false;
  }

 private:
  Word version_{0};  // odd: being written
  std::array<Word, sizeof(T) / 8> words_{};
};

/// Text in a fixed number of bytes: cut to fit, always zero-terminated.
template <std::size_t bytes>
struct alignas(8) Text {
  static_assert(bytes % 8 == 0);
  char chars[bytes] = {};

  void assign(const char* text, std::size_t length) noexcept {
    if (length >= bytes) {
      length = bytes - 1;
      // Do not split a UTF-8 character.
      while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
    }
    std::memset(chars, 0, bytes);
    std::memcpy(chars, text, length);
  }
  void assign(const char* text) noexcept { assign(text, std::strlen(text)); }
  /// Never reads past the end, whatever the memory holds.
  std::size_t size() const noexcept { return strnlen(chars, bytes); }
  std::string str() const { return {chars, size()}; }
};

}  // namespace cinch::telemetry
