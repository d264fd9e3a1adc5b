// SPDX-License-Identifier: Apache-2.0
#include "tools/replay/trace.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include <zstd.h>

namespace cinch::allocator {
namespace {

constexpr std::string_view first_line = "cinch-trace 1";
constexpr std::string_view zstd_magic = "\x28\xB5\x2F\xFD";
constexpr char pickle_magic = '\x80';
// Traces of ours are smaller than this.
constexpr std::size_t largest_text = std::size_t{1} << 30;

std::variant<std::string, const char*> decompressed(std::string_view content) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                        ZSTD_freeDCtx);
  std::string text;
  std::string chunk(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer in = {content.data(), content.size(), 0};
  std::size_t left = 1;
  while (in.pos < in.size) {
    ZSTD_outBuffer out = {chunk.data(), chunk.size(), 0};
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left) != 0) return "not zstd";
    text.append(chunk, 0, out.pos);
    if (text.size() > largest_text) return "too large";
  }
  // Takes what a full output buffer held back.
  while (left != 0) {
    ZSTD_outBuffer out = {chunk.data(), chunk.size(), 0};
    left = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(left) != 0 || out.pos == 0) return "cut short";
    text.append(chunk, 0, out.pos);
  }
  return text;
}

/// Reads " 12 3" into numbers; false if the words are something else.
template <class... Number>
bool numbers(std::string_view words, Number&... number) {
  const auto one = [&words](auto& value) {
    if (words.empty() || words.front() != ' ') return false;
    words.remove_prefix(1);
    const auto [end, error] = std::from_chars(words.data(), words.data() + words.size(), value);
    if (error != std::errc()) return false;
    words.remove_prefix(static_cast<std::size_t>(end - words.data()));
    return true;
  };
  return (one(number) && ...) && words.empty();
}

/// Reads the line of an operation into `trace`. `live` has a bit for each allocation: is it in use?
/// @return null, or what was expected instead of the line
const char* add_operation(std::string_view line, Trace& trace, std::vector<bool>& live) {
  Trace::Operation operation{};
  switch (line.empty() ? '\0' : line[0]) {
    case 'a':
      operation.kind = Trace::Kind::allocate;
      if (!numbers(line.substr(1), operation.bytes, operation.stream) ||
          operation.stream >= Trace::most_streams || operation.bytes >= Trace::most_bytes) {
        return "\"a BYTES STREAM\"";
      }
      operation.number = trace.allocations++;
      live.push_back(true);
      break;
    case 'f':
    case 'r': {
      const bool frees = line[0] == 'f';
      operation.kind = frees ? Trace::Kind::free : Trace::Kind::record_stream;
      const bool good = frees ? numbers(line.substr(1), operation.number)
                              : numbers(line.substr(1), operation.number, operation.stream);
      if (!good || operation.number >= trace.allocations || !live[operation.number] ||
          operation.stream >= Trace::most_streams) {
        return "\"f NUMBER\" or \"r NUMBER STREAM\" of an allocation in use";
      }
      if (frees) live[operation.number] = false;
      break;
    }
    case 's':
      operation.kind = Trace::Kind::step;
      if (line.size() != 1) return "\"s\"";
      break;
    default:
      return "a, f, r, s or #";
  }
  trace.operations.push_back(operation);
  return nullptr;
}

}  // namespace

std::size_t Trace::peak_bytes(const std::vector<bool>& refused) const {
  std::vector<std::size_t> sizes(allocations);
  std::size_t now = 0;
  std::size_t peak = 0;
  for (const Operation& operation : operations) {
    if (operation.kind == Kind::allocate) {
      if (!refused.empty() && refused[operation.number]) continue;
      std::size_t& size = sizes[operation.number];
      size = std::max<std::size_t>(1, (operation.bytes + trace_quantum - 1) / trace_quantum) *
             trace_quantum;
      now += size;
      peak = std::max(peak, now);
    } else if (operation.kind == Kind::free) {
      now -= sizes[operation.number];
    }
  }
  return peak;
}

double Trace::operations_per_step() const {
  const auto steps = std::ranges::count(operations, Kind::step, &Operation::kind);
  return static_cast<double>(operations.size()) / static_cast<double>(std::max<long>(steps, 1));
}

std::variant<Trace, std::string> parse_trace(std::string_view content) {
  std::string text;
  if (content.starts_with(zstd_magic)) {
    auto unpacked = decompressed(content);
    if (const auto* fault = std::get_if<const char*>(&unpacked)) return std::string(*fault);
    text = std::move(std::get<std::string>(unpacked));
    content = text;
  }
  Trace trace;
  std::vector<bool> live;
  int number = 0;
  while (!content.empty()) {
    const std::size_t length = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, length);
    content.remove_prefix(std::min(length + 1, content.size()));
    ++number;
    const char* expected = nullptr;
    if (number == 1) {
      if (line != first_line) expected = "\"cinch-trace 1\"";
    } else if (line.starts_with('#')) {
      if (trace.title.empty() && line.size() > 2) trace.title = line.substr(2);
    } else {
      expected = add_operation(line, trace, live);
    }
    if (expected != nullptr) {
      return "line " + std::to_string(number) + ": expected " + expected;
    }
  }
  if (number == 0) return std::string("empty");
  return trace;
}

std::variant<Trace, std::string> load_trace(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  std::string content;
  std::string chunk(std::size_t{1} << 16, '\0');
  std::size_t count = 0;
  while (file && (count = std::fread(chunk.data(), 1, chunk.size(), file.get())) > 0) {
    content.append(chunk, 0, count);
    if (content.size() > largest_text) return std::string("too large");
  }
  if (!file || std::ferror(file.get()) != 0) return std::string(std::strerror(errno));
  return !content.empty() && content[0] == pickle_magic ? import_snapshot(content)
                                                        : parse_trace(content);
}

std::string to_file(const Trace& trace) {
  std::string text(first_line);
  text += '\n';
  if (!trace.title.empty()) text += "# " + trace.title + '\n';
  for (const Trace::Operation& operation : trace.operations) {
    switch (operation.kind) {
      case Trace::Kind::allocate:
        text += "a " + std::to_string(operation.bytes) + ' ' + std::to_string(operation.stream);
        break;
      case Trace::Kind::free:
        text += "f " + std::to_string(operation.number);
        break;
      case Trace::Kind::record_stream:
        text += "r " + std::to_string(operation.number) + ' ' + std::to_string(operation.stream);
        break;
      case Trace::Kind::step:
        text += 's';
        break;
    }
    text += '\n';
  }
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 19));
  return packed;
}

}  // namespace cinch::allocator
