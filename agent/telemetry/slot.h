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

/// Whether a block of shared memory that says its magic number and version, and its ready word
/// last, is whole and of the version that this program knows.
template <class Block>
bool is_ready(const Block& block) noexcept {
  return block.ready.load(std::memory_order_acquire) == 1 &&
         block.magic.load(std::memory_order_relaxed) == Block::magic_value &&
         block.version.load(std::memory_order_relaxed) == Block::version_value;
}

/// Called between any two stores of a publication; tests kill the process there.
struct NoStep {
  void operator()() const noexcept {}
};

/// A value that one thread writes and others, also of other processes, read whole or not at all:
/// a sequence lock whose payload is atomic words. Release stores and acquire loads in place of
/// fences: the same instructions on x86, and ThreadSanitizer understands them.
template <typename T>
class Slot {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % 8 == 0 && alignof(T) == 8);
  using Words = std::array<std::uint64_t, sizeof(T) / 8>;

 public:
  /// @pre one thread at a time. Never waits.
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

  /// As store, by any thread: false, and nothing happens, while another one writes this slot.
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

  /// False when the slot was never written, or was being written at each of `tries` looks.
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

/// Text of a fixed size, cut short if need be, always terminated.
template <std::size_t bytes>
struct alignas(8) Text {
  static_assert(bytes % 8 == 0);
  char chars[bytes] = {};

  void assign(const char* text, std::size_t length) noexcept {
    if (length >= bytes) {
      length = bytes - 1;
      // Never half a character of UTF-8.
      while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
    }
    std::memset(chars, 0, bytes);
    std::memcpy(chars, text, length);
  }
  void assign(const char* text) noexcept { assign(text, std::strlen(text)); }
  /// Whatever the memory holds: never past its end.
  std::size_t size() const noexcept { return strnlen(chars, bytes); }
  std::string str() const { return {chars, size()}; }
};

}  // namespace cinch::telemetry
