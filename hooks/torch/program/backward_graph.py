# SPDX-License-Identifier: Apache-2.0
# Run by compiled_region.cpp inside the program, with `number` set: leaves in `graph` the backward of the
# autograd.Function class of that number, which AOTAutograd made, as policy/operators/backward_graph.h describes it.
# Fails where it can't be read whole. Reads attributes only; nothing of the program's own is called.
import sys


def backward_graph(number):
    for function in type.__subclasses__(torch.autograd.Function):
        of_class = function.__dict__
        if of_class["_backward_cls"].__dict__["_autograd_function_id"] == number:
            break
    else:
        raise LookupError(number)
    info, metadata = of_class["_lazy_backward_info"], of_class["metadata"]
    if hasattr(info, "bw_module"):
        placeholders, lines = from_nodes(info.bw_module.__dict__["_graph"].nodes)
    else:
        # Out of AOTAutograd's cache, which has the graph as text.
        placeholders, lines = from_text(info.bw_module_fn.__self__.args[0]["_code"])
    # AOTAutograd's order of backward's arguments: sizes, tensors, objects, gradients, random states. The last of
    # the tensors it keeps itself, without save_for_backward.
    gradients = [name for name in placeholders if "tangents" in name]
    first, end = metadata.num_symints_saved_for_bw, placeholders.index(gradients[0])
    end -= metadata.num_tensors_saved_with_no_vc_check + metadata.num_opaque_objects_saved_for_bw
    kinds = dict.fromkeys(placeholders, "input")
    kinds.update(dict.fromkeys(placeholders[first:end], "saved"))
    kinds.update(dict.fromkeys(gradients, "gradient"))
    return "\n".join("\t".join(line) for line in [(kind, name) for name, kind in kinds.items()] + lines)


def call(name, target, schema, positional, named):
    """The line of one call. Operators' arguments have the names of their schema, others' are numbered."""
    names = [argument.name for argument in schema.arguments] if schema else []
    names += [str(i) for i in range(len(names), len(positional))]
    arguments = list(zip(names, positional)) + named
    return ("call", name, schema.name if schema else target, *(each + "=" + text for each, text in arguments))


def from_nodes(nodes):
    def text(argument, told):
        if isinstance(argument, torch.fx.Node):
            told.add(argument.name)
            return "%" + argument.name
        if isinstance(argument, (list, tuple)):
            return "[" + ",".join(text(each, told) for each in argument) + "]"
        kinds = bool, int, float, torch.dtype, torch.layout, torch.memory_format
        return str(argument) if argument is None or isinstance(argument, kinds) else "?"

    placeholders, lines = [], []
    for node in nodes:
        told = set()
        positional = [text(argument, told) for argument in node.args]
        named = [(name, text(argument, told)) for name, argument in node.kwargs.items()]
        if told != {each.name for each in node.all_input_nodes}:
            raise ValueError(node.name)
        if node.op == "placeholder":
            placeholders.append(node.name)
        elif node.op == "call_function":
            schema = getattr(node.target, "_schema", None)
            lines.append(call(node.name, getattr(node.target, "__name__", "?"), schema, positional, named))
        elif node.op == "get_attr":
            lines.append(("call", node.name, "constant"))
        elif node.op == "output":
            lines.append(("output", *positional))
        else:
            raise ValueError(node.op)
    return placeholders, lines


# The text is Python, as torch.fx writes it: a function of one statement for each node.
def from_text(code):
    import ast

    (function,) = ast.parse(code).body
    placeholders = [argument.arg for argument in function.args.args][1:]
    variables = set(placeholders)

    def names(tree):
        return [part.id for part in ast.walk(tree) if isinstance(part, ast.Name) and part.id in variables]

    def text(argument):
        if isinstance(argument, ast.Name) and argument.id in variables:
            return "%" + argument.id
        if isinstance(argument, (ast.List, ast.Tuple)):
            return "[" + ",".join(text(each) for each in argument.elts) + "]"
        if names(argument):
            raise ValueError(ast.unparse(argument))
        is_text = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        is_short = isinstance(argument, (ast.Constant, ast.UnaryOp, ast.Attribute, ast.Name))
        return ast.unparse(argument) if is_short and not is_text else "?"

    def schema_of(target):
        parts = target.split(".")  # "torch.ops.aten.mul.Tensor"
        if parts[:2] != ["torch", "ops"] or len(parts) != 5:
            return None
        overload = "" if parts[4] == "default" else parts[4]
        return torch._C._get_schema(parts[2] + "::" + parts[3], overload)

    def line(name, value):
        if isinstance(value, ast.Name):
            return call(name, "alias", None, [text(value)], [])
        if isinstance(value, ast.Subscript):
            return call(name, "getitem", None, [text(value.value), text(value.slice)], [])
        if isinstance(value, ast.Call) and not names(value.func):
            target = ast.unparse(value.func)
            positional = [text(argument) for argument in value.args]
            named = [(argument.arg, text(argument.value)) for argument in value.keywords]
            return call(name, target.rpartition(".")[2], schema_of(target), positional, named)
        # Arithmetic of sizes; a constant.
        return call(name, "?", None, ["%" + each for each in names(value)], [])

    lines = []
    for statement in function.body:
        if isinstance(statement, ast.Return):
            lines.append(("output", text(statement.value)))
            continue
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            raise ValueError(ast.unparse(statement))
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        # "x = None" lets go of a value.
        if not isinstance(statement.value, ast.Constant):
            lines.append(line(target.id, statement.value))
            variables.add(target.id)
    return placeholders, lines


torch = sys.modules["torch"]
graph = backward_graph(number)  # noqa: F821
