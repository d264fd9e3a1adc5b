// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace cinch::cli {
namespace {

template <typename... Args>
std::string format(const char* pattern, Args... args) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, args...);
  return buffer;
}

}  // namespace

void say_loudly(std::string_view text) {
  const Style style{colour_wanted(STDERR_FILENO)};
  std::fprintf(stderr, "cinch: %s\n", style.bad(text).c_str());
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return format("%d B", static_cast<int>(bytes));
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 1023.95 would be printed as 1024.0.
  while (value >= 1023.95 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return format("%.1f %s", value, units[unit]);
}

std::string human_seconds(double seconds) {
  if (!(seconds >= 0)) return "?";
  if (seconds < 0.0995) return format("%.0f ms", seconds * 1000);
  if (seconds < 99.95) return format("%.1f s", seconds);
  const auto whole = std::llround(seconds);
  if (whole < 3600) return format("%lld min %lld s", whole / 60, whole % 60);
  return format("%lld h %lld min", whole / 3600, whole % 3600 / 60);
}

std::string human_ratio(double ratio) {
  return ratio < 99.95 ? format("%.1fx", ratio) : format("%.0fx", ratio);
}

std::string human_ratio(std::uint64_t raw, std::uint64_t stored) {
  if (stored == 0) return "-";
  return human_ratio(static_cast<double>(raw) / static_cast<double>(stored));
}

std::string human_error(double error) {
  return format("%.2g", error);
}

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string_view first_characters(std::string_view text, std::size_t count) {
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_character(text[i]) && characters++ == count) return text.substr(0, i);
  }
  return text;
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return std::to_string(count) + ' ' + std::string(noun) + (count == 1 ? "" : "s");
}

std::string quoted(std::string_view text, Shell shell) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += shell == Shell::fish ? "\\'" : "'\\''";
    } else if (c == '\\' && shell == Shell::fish) {
      word += "\\\\";
    } else {
      word += c;
    }
  }
  return word + '\'';
}

bool colour_wanted(int file_descriptor) {
  const char* refused = std::getenv("NO_COLOR");
  return (refused == nullptr || *refused == '\0') && isatty(file_descriptor) == 1;
}

std::string Style::wrap(std::string_view code, std::string_view text) const {
  if (!colour) return printable(text);
  return "\033[" + std::string(code) + 'm' + printable(text) + "\033[0m";
}

Table::Table(std::vector<std::string> header) {
  for (std::string& cell : header) {
    right_.push_back(cell.starts_with('>'));
    if (right_.back()) cell.erase(0, 1);
  }
  rows_.push_back(std::move(header));
}

void Table::add(std::vector<std::string> row) {
  row.resize(right_.size());
  for (std::string& cell : row) cell = printable(cell);
  rows_.push_back(std::move(row));
}

std::string Table::render(std::string_view indent) const {
  std::vector<std::size_t> widths(right_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - width(row[i]), ' ');
      if (i > 0) line += "  ";
      line += right_[i] ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace cinch::cli
