# SPDX-License-Identifier: Apache-2.0
# Run by module_names.cpp inside the program: sets `names` to a line for each parameter of each
# module, "address of its TensorImpl, module, class". Reads dictionaries only; nothing of the
# program's own is called.
def names_of_parameters():
    import gc
    import sys

    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return ""
    Module = torch.nn.Module
    # What wraps a model adds a component that its author never wrote.
    wrappers = {"module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}

    def members(module, kind):
        found = object.__getattribute__(module, "__dict__").get(kind)
        return list(found.items()) if isinstance(found, dict) else []

    modules = [o for o in gc.get_objects() if issubclass(type(o), Module)]
    inner = {id(child) for m in modules for _, child in members(m, "_modules")}
    found = {}  # TensorImpl -> (number of its root, path, class)

    def walk(root, number):
        new, seen, stack = 0, set(), [(root, ())]
        while stack:
            module, path = stack.pop()
            if module is None or id(module) in seen:
                continue
            seen.add(id(module))
            for _, parameter in members(module, "_parameters"):
                if isinstance(parameter, torch.Tensor) and parameter._cdata not in found:
                    found[parameter._cdata] = (number, path, type(module).__name__)
                    new += 1
            children = members(module, "_modules")
            for name, child in reversed(children):
                wraps = name in wrappers and len(children) == 1
                stack.append((child, path if wraps else path + (name,)))
        return new

    def size(root):
        total, seen, stack = 0, set(), [root]
        while stack:
            module = stack.pop()
            if module is None or id(module) in seen:
                continue
            seen.add(id(module))
            total += len(members(module, "_parameters"))
            stack += [child for _, child in members(module, "_modules")]
        return total

    # The largest first: a part that is also a root of its own (a list of layers) adds nothing.
    roots = sorted((m for m in modules if id(m) not in inner), key=size, reverse=True)
    with torch._C.DisableTorchFunctionSubclass():
        named = [number for number, root in enumerate(roots) if walk(root, number)]
    titles = {}
    for number in named:
        title = type(roots[number]).__name__
        taken = sum(t == title or t.startswith(title + "#") for t in titles.values())
        titles[number] = title if taken == 0 else f"{title}#{taken + 1}"
    lines = []
    for address, (number, path, kind) in found.items():
        parts = path if len(titles) == 1 and path else (titles[number], *path)
        lines.append(f"{address}\t{'.'.join(parts)}\t{kind}")
    return "\n".join(lines)


names = names_of_parameters()
