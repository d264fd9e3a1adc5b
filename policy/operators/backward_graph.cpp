// SPDX-License-Identifier: Apache-2.0
#include "policy/operators/backward_graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace cinch::policy {
namespace {

/// Takes what is before the first `separator` off `rest`, and the separator.
std::string_view take(std::string_view& rest, char separator) {
  const std::string_view taken = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(taken.size() + 1, rest.size()));
  return taken;
}

class Parser {
 public:
  bool line(std::string_view rest) {
    const std::string_view kind = take(rest, '\t');
    if (kind == "output") return add("", {}, rest);
    const std::string_view name = take(rest, '\t');
    if (kind == "call") return add(name, take(rest, '\t'), rest);
    if (kind == "saved") graph_.saved.push_back(graph_.nodes.size());
    if (!add(name, {}, {})) return false;
    graph_.nodes.back().is_gradient = kind == "gradient";
    return kind == "saved" || kind == "gradient" || kind == "input";
  }

  BackwardGraph take_graph() { return std::move(graph_); }

 private:
  bool add(std::string_view name, std::string_view op, std::string_view arguments) {
    const std::size_t index = graph_.nodes.size();
    if (!name.empty() && !by_name_.emplace(name, index).second) return false;
    BackwardGraph::Node node;
    node.op = op;
    while (!arguments.empty()) {
      if (!add_argument(node, index, take(arguments, '\t'))) return false;
    }
    graph_.nodes.push_back(std::move(node));
    return true;
  }

  bool add_argument(BackwardGraph::Node& node, std::size_t index, std::string_view field) {
    BackwardGraph::Argument argument;
    if (!node.op.empty()) argument.name = take(field, '=');
    argument.text = field;
    while (!field.empty()) {
      std::string_view part = take(field, ',');
      while (part.starts_with('[')) part.remove_prefix(1);
      while (part.ends_with(']')) part.remove_suffix(1);
      if (!part.starts_with('%')) continue;
      const auto named = by_name_.find(part.substr(1));
      if (named == by_name_.end()) return false;
      BackwardGraph::Node& read = graph_.nodes[named->second];
      argument.nodes.push_back(named->second);
      read.readers.push_back({index, node.arguments.size()});
      node.is_gradient = node.is_gradient || read.is_gradient;
    }
    node.arguments.push_back(std::move(argument));
    return true;
  }

  BackwardGraph graph_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

}  // namespace

const BackwardGraph::Argument* BackwardGraph::Node::argument(
    std::string_view of_name) const noexcept {
  const auto found = std::ranges::find(arguments, of_name, &Argument::name);
  return found == arguments.end() ? nullptr : &*found;
}

std::optional<BackwardGraph> parse_backward_graph(std::string_view text) {
  Parser parser;
  while (!text.empty()) {
    if (!parser.line(take(text, '\n'))) return std::nullopt;
  }
  return parser.take_graph();
}

}  // namespace cinch::policy
