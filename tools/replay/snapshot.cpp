// SPDX-License-Identifier: Apache-2.0
// PyTorch's memory snapshots are pickles of plain containers. This reads only those and refuses
// others. Nothing is called or imported, so a hostile file does no harm.
#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <optional>

#include "tools/replay/trace.h"

namespace cinch::allocator {
namespace {

struct Value;
/// Points into the unpickler, which owns all values: a pickle may put a list into itself.
using Pointer = Value*;

/// None, booleans and floats are all "nothing" here: no field that is read has such a value.
struct Value {
  enum class Kind : std::uint8_t { nothing, integer, text, list, dictionary } kind = Kind::nothing;
  std::int64_t integer = 0;
  std::string text;
  std::vector<Pointer> items;  // of a list or tuple; of a dictionary keys and values in turn

  const Value* at(std::string_view key) const {
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i]->kind == Kind::text && items[i]->text == key) return items[i + 1];
    }
    return nullptr;
  }
};

class Unpickler {
 public:
  explicit Unpickler(std::string_view data) : data_(data) {}

  /// The pickled value, valid as long as the unpickler; null when there is none, or when the pickle
  /// has what snapshots do not have.
  Pointer run() {
    while (!failed_ && !data_.empty()) {
      const auto opcode = static_cast<unsigned char>(data_[0]);
      data_.remove_prefix(1);
      if (opcode == '.') return failed_ || stack_.size() != 1 ? nullptr : stack_[0];
      step(opcode);
      if (stack_.size() > most_values) failed_ = true;
    }
    return nullptr;
  }

 private:
  static constexpr std::size_t most_values = std::size_t{1} << 24;

  std::uint64_t number(std::size_t bytes) {
    if (data_.size() < bytes) {
      failed_ = true;
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(data_[i])} << (8 * i);
    }
    data_.remove_prefix(bytes);
    return value;
  }

  std::string_view bytes(std::uint64_t count) {
    if (count > data_.size()) {
      failed_ = true;
      return {};
    }
    const std::string_view result = data_.substr(0, count);
    data_.remove_prefix(count);
    return result;
  }

  void push(Value value) { stack_.push_back(&values_.emplace_back(std::move(value))); }
  void push_integer(std::int64_t value) {
    push({.kind = Value::Kind::integer, .integer = value, .text = {}, .items = {}});
  }
  void push_items(Value::Kind kind, std::vector<Pointer> items) {
    push({.kind = kind, .integer = 0, .text = {}, .items = std::move(items)});
  }

  /// Takes values off the top of the stack: `count`, or all above the last mark.
  std::vector<Pointer> pop(std::optional<std::size_t> count = std::nullopt) {
    std::size_t from = 0;
    if (count) {
      if (*count > stack_.size()) failed_ = true;
      from = failed_ ? stack_.size() : stack_.size() - *count;
    } else if (marks_.empty() || marks_.back() > stack_.size()) {
      failed_ = true;
      from = stack_.size();
    } else {
      from = marks_.back();
      marks_.pop_back();
    }
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(from);
    std::vector<Pointer> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return items;
  }

  void extend(std::vector<Pointer> items, Value::Kind kind) {
    if (stack_.empty() || stack_.back()->kind != kind ||
        (kind == Value::Kind::dictionary && items.size() % 2 != 0)) {
      failed_ = true;
      return;
    }
    auto& target = stack_.back()->items;
    target.insert(target.end(), items.begin(), items.end());
  }

  // What an opcode does with its argument.
  void skip(std::uint64_t /*argument*/) {}
  void nothing(std::uint64_t /*argument*/) { push({}); }
  void integer(std::uint64_t value) { push_integer(static_cast<std::int64_t>(value)); }
  void signed_integer(std::uint64_t value) { push_integer(static_cast<std::int32_t>(value)); }

  void long_integer(std::uint64_t count) {
    const std::string_view digits = bytes(count);
    if (failed_ || count > 9 || (count == 9 && digits[8] != '\0')) {
      failed_ = true;  // more than 64 bits
      return;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < std::min<std::uint64_t>(count, 8); ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(digits[i])} << (8 * i);
    }
    if (count > 0 && count < 8 && (static_cast<unsigned char>(digits[count - 1]) & 0x80) != 0) {
      value |= ~std::uint64_t{0} << (8 * count);
    }
    push_integer(static_cast<std::int64_t>(value));
  }

  void text(std::uint64_t count) {
    push({.kind = Value::Kind::text, .integer = 0, .text = std::string(bytes(count)), .items = {}});
  }

  void remember(std::uint64_t key) {
    if (stack_.empty()) {
      failed_ = true;
    } else {
      memo_[key] = stack_.back();
    }
  }

  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) {
      failed_ = true;
    } else {
      stack_.push_back(found->second);
    }
  }

  struct WithArgument {
    unsigned char opcode;
    std::size_t bytes;  // of the argument, an unsigned little-endian number
    void (Unpickler::*act)(std::uint64_t argument);
  };
  // The opcodes that have an argument, or push a constant, of protocols 2 to 5 (Lib/pickletools.py
  // of CPython). act_on_stack has the others.
  static constexpr WithArgument with_argument[] = {
      {0x80, 1, &Unpickler::skip},           // PROTO
      {0x95, 8, &Unpickler::skip},           // FRAME
      {'N', 0, &Unpickler::nothing},         // NONE
      {0x88, 0, &Unpickler::nothing},        // NEWTRUE
      {0x89, 0, &Unpickler::nothing},        // NEWFALSE
      {'G', 8, &Unpickler::nothing},         // BINFLOAT
      {'K', 1, &Unpickler::integer},         // BININT1
      {'M', 2, &Unpickler::integer},         // BININT2
      {'J', 4, &Unpickler::signed_integer},  // BININT
      {0x8a, 1, &Unpickler::long_integer},   // LONG1
      {0x8b, 4, &Unpickler::long_integer},   // LONG4
      {'U', 1, &Unpickler::text},            // SHORT_BINSTRING
      {'T', 4, &Unpickler::text},            // BINSTRING
      {'C', 1, &Unpickler::text},            // SHORT_BINBYTES
      {'B', 4, &Unpickler::text},            // BINBYTES
      {0x8c, 1, &Unpickler::text},           // SHORT_BINUNICODE
      {'X', 4, &Unpickler::text},            // BINUNICODE
      {0x8d, 8, &Unpickler::text},           // BINUNICODE8
      {'q', 1, &Unpickler::remember},        // BINPUT
      {'r', 4, &Unpickler::remember},        // LONG_BINPUT
      {'h', 1, &Unpickler::recall},          // BINGET
      {'j', 4, &Unpickler::recall},          // LONG_BINGET
  };

  void step(unsigned char opcode) {
    const auto* const found = std::ranges::find(with_argument, opcode, &WithArgument::opcode);
    if (found == std::end(with_argument)) {
      act_on_stack(opcode);
    } else {
      (this->*found->act)(number(found->bytes));
    }
  }

  void act_on_stack(unsigned char opcode) {
    using Kind = Value::Kind;
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        break;
      case ']':
      case ')':
        push_items(Kind::list, {});
        break;
      case '}':
        push_items(Kind::dictionary, {});
        break;
      case 'l':
      case 't':
        push_items(Kind::list, pop());
        break;
      case 'd':
        push_items(Kind::dictionary, pop());
        break;
      case 0x85:
      case 0x86:
      case 0x87:  // TUPLE1 to TUPLE3
        push_items(Kind::list, pop(opcode - 0x84));
        break;
      case 'a':
        extend(pop(1), Kind::list);
        break;
      case 'e':
        extend(pop(), Kind::list);
        break;
      case 's':
        extend(pop(2), Kind::dictionary);
        break;
      case 'u':
        extend(pop(), Kind::dictionary);
        break;
      case '0':
        pop(1);
        break;
      case 0x94:  // MEMOIZE
        remember(memo_.size());
        break;
      default:
        failed_ = true;
    }
  }

  std::string_view data_;
  std::deque<Value> values_;
  std::vector<Pointer> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, Pointer> memo_;
  bool failed_ = false;
};

std::optional<std::int64_t> integer_of(const Value& value, std::string_view key) {
  const Value* found = value.at(key);
  if (found == nullptr || found->kind != Value::Kind::integer) return std::nullopt;
  return found->integer;
}

// An event has some ten. A pickle may hold the same one many times.
constexpr std::size_t most_fields = 100;

}  // namespace

std::variant<Trace, std::string> import_snapshot(std::string_view pickle, std::size_t device) {
  Unpickler unpickler(pickle);
  const Value* root = unpickler.run();
  if (root == nullptr || root->kind != Value::Kind::dictionary) {
    return std::string("not a pickled memory snapshot");
  }
  const Value* traces = root->at("device_traces");
  if (traces == nullptr || traces->kind != Value::Kind::list || device >= traces->items.size()) {
    return std::string("the snapshot has no \"device_traces\" of this device");
  }
  Trace trace;
  trace.title = "imported from a PyTorch memory snapshot";
  std::map<std::int64_t, std::uint32_t> live;     // by address
  std::map<std::int64_t, std::uint32_t> streams;  // PyTorch's to ours
  for (const Value* entry : traces->items[device]->items) {
    if (entry->items.size() > 2 * most_fields) return std::string("an event has too many fields");
    const Value* action = entry->at("action");
    const auto address = integer_of(*entry, "addr");
    if (action == nullptr || !address) continue;
    if (action->text == "alloc") {
      const auto bytes = integer_of(*entry, "size");
      if (!bytes || *bytes < 0 || static_cast<std::size_t>(*bytes) >= Trace::most_bytes) {
        return std::string("an allocation has no size, or too large a one");
      }
      const std::int64_t stream = integer_of(*entry, "stream").value_or(0);
      const auto known = streams.emplace(stream, static_cast<std::uint32_t>(streams.size())).first;
      if (known->second >= Trace::most_streams) {
        return "the snapshot has more than " + std::to_string(Trace::most_streams) + " streams";
      }
      live[*address] = trace.allocations;
      trace.operations.push_back({Trace::Kind::allocate, trace.allocations++, known->second,
                                  static_cast<std::size_t>(*bytes)});
    } else if (action->text == "free_requested") {
      const auto found = live.find(*address);
      if (found == live.end()) continue;
      trace.operations.push_back({Trace::Kind::free, found->second, 0, 0});
      live.erase(found);
    }
  }
  if (trace.operations.empty()) {
    return std::string(
        "the snapshot has no history: call torch.cuda.memory._record_memory_history() first");
  }
  return trace;
}

}  // namespace cinch::allocator
