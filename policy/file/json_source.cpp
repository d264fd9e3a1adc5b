// SPDX-License-Identifier: Apache-2.0
#include "policy/file/json_source.h"

#include <algorithm>
#include <iterator>

namespace cinch::policy {
namespace {

using Json = nlohmann::json;

/// Reads characters for the parser and tells how far it got: nlohmann's own events carry no
/// positions.
class TrackingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const TrackingIterator& a, const TrackingIterator& b) {
    return a.at_ == b.at_;
  }
  friend bool operator!=(const TrackingIterator& a, const TrackingIterator& b) { return !(a == b); }

 private:
  const char* at_;
  const char** reached_;
};

/// Follows the parser's events and records where each token began: it is the first character
/// after the previous token that isn't white space, a comma or a colon. A number's event comes
/// one character late, but that character never begins a token whose place is wanted.
class Recorder {
 public:
  explicit Recorder(std::string_view text) : text_(text), reached_(text.data()) {}

  const char** reached() { return &reached_; }

  bool on_event(Json::parse_event_t event, const Json& parsed) {
    const std::size_t start = text_.find_first_not_of(" \t\r\n,:", token_end_);
    token_end_ = static_cast<std::size_t>(reached_ - text_.data());
    switch (event) {
      case Json::parse_event_t::key:
        on_key(parsed.get_ref<const std::string&>(), start);
        break;
      case Json::parse_event_t::value:
        begin_value(start);
        break;
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        open_.push_back(
            {begin_value(start), event == Json::parse_event_t::array_start ? 0 : no_index, {}});
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        open_.pop_back();
        break;
    }
    return true;
  }

  /// Offset of the first token that the parser did not understand.
  std::size_t next_token() const {
    const std::size_t at = text_.find_first_not_of(" \t\r\n,:[{", token_end_);
    return at == text_.npos ? token_end_ : at;
  }

  std::map<std::string, Location> locations;
  std::optional<JsonError> fault;  ///< the first error that JSON's grammar allows

 private:
  static constexpr std::int64_t no_index = -1;
  struct Container {
    std::string pointer;
    std::int64_t next_index;  ///< no_index in objects
    std::string key;          ///< the key whose value comes next, in objects
  };

  void on_key(const std::string& key, std::size_t start) {
    const std::string pointer = pointer_append(open_.back().pointer, key);
    open_.back().key = key;
    if (fault) return;
    const bool fresh = locations.try_emplace(pointer, Location{start, 0}).second;
    if (!fresh) {
      fault = {position_at(text_, start), pointer,
               "found the key \"" + key + "\" a second time, expected each key once"};
    }
  }

  std::string begin_value(std::size_t start) {
    // Pointers of n levels take n^2 bytes, and no policy is that deep.
    constexpr std::size_t deepest = 64;
    if (open_.size() >= deepest) {
      if (!fault) {
        fault = {position_at(text_, start), open_.back().pointer,
                 "found more than " + std::to_string(deepest) + " levels, expected a policy"};
      }
      return open_.back().pointer;
    }
    std::string pointer;
    if (!open_.empty()) {
      Container& parent = open_.back();
      pointer = pointer_append(parent.pointer, parent.next_index == no_index
                                                   ? parent.key
                                                   : std::to_string(parent.next_index++));
    }
    locations[pointer].value = start;
    return pointer;
  }

  std::string_view text_;
  const char* reached_;
  std::size_t token_end_ = 0;
  std::vector<Container> open_;
};

/// nlohmann's description without its prefix, which repeats the position.
std::string syntax_message(std::string_view what) {
  const std::size_t column = what.find(", column ");
  const std::size_t colon = column == what.npos ? what.npos : what.find(": ", column);
  return std::string(colon == what.npos ? what : what.substr(colon + 2));
}

}  // namespace

TextPosition position_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const std::size_t newline = before.rfind('\n');
  const std::string_view line = newline == before.npos ? before : before.substr(newline + 1);
  const auto starts_character = [](char c) { return (c & 0xC0) != 0x80; };
  return {1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
          1 + static_cast<int>(std::count_if(line.begin(), line.end(), starts_character))};
}

std::variant<JsonSource, JsonError> parse_json(std::string_view text) {
  Recorder recorder(text);
  const TrackingIterator first(text.data(), recorder.reached());
  const TrackingIterator last(text.data() + text.size(), recorder.reached());
  JsonSource source;
  try {
    source.document = Json::parse(first, last, [&recorder](int, Json::parse_event_t e, Json& v) {
      return recorder.on_event(e, v);
    });
  } catch (const Json::parse_error& error) {
    return JsonError{position_at(text, error.byte == 0 ? 0 : error.byte - 1), "",
                     syntax_message(error.what())};
  } catch (const Json::out_of_range&) {
    return JsonError{position_at(text, recorder.next_token()), "",
                     "found a number that is too large, expected one that a double can hold"};
  }
  if (recorder.fault) return *recorder.fault;
  source.locations = std::move(recorder.locations);
  return source;
}

std::string pointer_append(const std::string& pointer, std::string_view token) {
  std::string result = pointer;
  result.push_back('/');
  for (const char c : token) {
    if (c == '~' || c == '/') result.push_back('~');
    result.push_back(c == '~' ? '0' : c == '/' ? '1' : c);
  }
  return result;
}

std::vector<std::string> pointer_tokens(std::string_view pointer) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    if (pointer[i] == '/') {
      tokens.emplace_back();
    } else if (pointer[i] == '~') {
      ++i;  // our own pointers are always well formed
      tokens.back().push_back(pointer[i] == '1' ? '/' : '~');
    } else {
      tokens.back().push_back(pointer[i]);
    }
  }
  return tokens;
}

std::string field_path(std::string_view pointer) {
  std::string path;
  for (const std::string& token : pointer_tokens(pointer)) {
    const bool index = !token.empty() && token.find_first_not_of("0123456789") == token.npos;
    if (!index && !path.empty()) path.push_back('.');
    if (index) path.push_back('[');
    path.append(token);
    if (index) path.push_back(']');
  }
  return path;
}

}  // namespace cinch::policy
