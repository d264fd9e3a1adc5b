// SPDX-License-Identifier: Apache-2.0
#include "files/terminal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>

namespace cinch::files {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t length = 0;  // bytes; 0: no UTF-8
};

/// The first character of `text`. @pre not empty
Character character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const std::size_t length = (byte(0) & 0xE0) == 0xC0   ? 2
                             : (byte(0) & 0xF0) == 0xE0 ? 3
                             : (byte(0) & 0xF8) == 0xF0 ? 4
                                                        : 0;
  if (length == 0 || length > text.size()) return {};
  std::uint32_t code = byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3FU);
  }
  // Overlong encodings are invalid: some terminals would decode a control character from one.
  constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  if (code < least[length] || is_surrogate || code > 0x10FFFF) return {};
  return {code, length};
}

bool is_control(std::uint32_t code) {
  const bool is_c0_or_c1 = code < 0x20 || (code >= 0x7F && code < 0xA0);
  const bool breaks_lines = code == 0x2028 || code == 0x2029;
  const bool turns = code == 0x200E || code == 0x200F || (code >= 0x202A && code <= 0x202E) ||
                     (code >= 0x2066 && code <= 0x2069);
  return is_c0_or_c1 || breaks_lines || turns;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Character character = character_at(text.substr(i));
    if (character.length == 0 || is_control(character.code)) {
      out += '?';
    } else {
      out += text.substr(i, character.length);
    }
    i += std::max<std::size_t>(1, character.length);
  }
  return out;
}

std::string with_prefix(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find('\n');
    out += "cinch: " + printable(text.substr(0, end)) + '\n';
    if (end == text.npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::string printable_lines(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find('\n');
    out += printable(text.substr(0, end));
    if (end == text.npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

void say(std::string_view text) noexcept try {
  std::fputs(with_prefix(text).c_str(), stderr);
} catch (const std::exception&) {
  // No memory: nothing is said.
}

}  // namespace cinch::files
