// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace cinch::policy {

/// The backward of a region that torch.compile compiled, as operators before the compiler fuses
/// them. Read from text, a line for each node in the order of execution, with fields that tabs
/// separate:
///
///     saved     NAME                                  a tensor that forward saves, in that order
///     gradient  NAME                                  a gradient that backward is given
///     input     NAME                                  anything else that it is given
///     call      NAME  aten::mul  self=%a  other=2.0   an operator with its arguments
///     output    [%a,None,%b]
///
/// An argument that begins with % is the value of that name; [ begins a list. Views into the text.
struct BackwardGraph {
  struct Argument {
    std::string_view name;
    std::string_view text;
    std::vector<std::size_t> nodes;  ///< those it names, itself or in a list
  };
  /// That a node's argument is, or has in a list, another node.
  struct Reader {
    std::size_t node;
    std::size_t argument;
  };
  struct Node {
    std::string_view op;  ///< "aten::mul"; "" for what is given, and for the output
    std::vector<Argument> arguments;
    std::vector<Reader> readers;
    bool is_gradient = false;  ///< depends on a gradient that backward is given

    const Argument* argument(std::string_view of_name) const noexcept;
  };
  std::vector<Node> nodes;
  std::vector<std::size_t> saved;
};

/// Nothing if `text` is not as described.
std::optional<BackwardGraph> parse_backward_graph(std::string_view text);

}  // namespace cinch::policy
