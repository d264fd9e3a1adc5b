# SPDX-License-Identifier: Apache-2.0
"""Compares the facts of policy/operand.cpp with the derivative formulas of the installed torch.

Prints for how many float tensors that autograd saves there is a fact, and lists those without one. With
--check it prints nothing but rows of operand.cpp and of backward_reads.cpp whose operator or operand torch does
not have, or of the latter those that operand.cpp has no fact for, and fails if there is one.

Which tensors a formula saves is asked of torchgen, the code generator that PyTorch itself is built with. It
ships with torch, but needs PyYAML; --check does not.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

import torch

FACTS = Path(__file__).parents[2] / "policy/operand.cpp"

READS = FACTS.with_name("backward_reads.cpp")

ROW = re.compile(r'\{"aten::(\w+)",\s*"(\w+|\*)",\s*\w+\}')
CONTACT = re.compile(r'\{"aten::(\w+)",\s*"(\w+|\*)",\s*"aten::(\w+)",\s*"(\w+|\*)"\}')
EFFECT = re.compile(r'\{"aten::(\w+)", Effect::\w+\}')

# Saved tensors of integers, of bytes, or of an opaque state.
NOT_FLOAT = re.compile(
    r"(\w*_)?(mask|index|indices|offsets|lengths|pivots|offs)|P|cum_seq_.|cu_seqlens_.|unused|philox_\w+|rng_state"
    r"|dropout_state|condition|reserve\w*"
)
INTEGER_OUTPUTS = re.compile(r"\w*(pool|dropout)\w*|_pack_padded_sequence|_embedding_bag")
INTEGER_TARGETS = re.compile(r"\w*(nll|ctc|multi_margin|multilabel)\w*")
TARGETS = ("target", "targets", "input_lengths", "target_lengths")

# Operators of other devices, of other layouts, and of lists of tensors, which the hooks do not take apart.
ELSEWHERE = re.compile(
    r"\w*(mps|miopen|mkldnn_(?!rnn)|to_mkldnn|sparse|to_dense|nested|padded|jagged|overrideable|_foreach_|_test_)\w*"
    r"|values(_copy)?"
)

COMPARES_OR_DIVIDES = re.compile(r"[<>]|==|where\(|sgn|isfinite|round|floor|trunc|/|div\(|log\(|rsqrt|gamma|erfinv")
SMOOTH = re.compile(r"pow|exp|sin|cos|special_|(\b\w+\b) \* \1\b|result \* result")


def base_name(name):
    """An operator without its overload; in-place variants count as their operator."""
    return name if name.endswith("__") else name.removesuffix("_")


def schemas():
    """Of all operators, over all overloads and in-place variants, the names of arguments and outputs."""
    names = defaultdict(set)
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::"):
            of = names[base_name(schema.name.removeprefix("aten::"))]
            of.update(argument.name for argument in schema.arguments)
            of.update(outputs(schema))
    return names


def outputs(schema):
    """The outputs' names by position, as the hooks name them, and their own where they have some."""
    count = len(schema.returns)
    by_position = ["result" if count == 1 else f"result{i}" for i in range(count)]
    return {by: own.name or by for by, own in zip(by_position, schema.returns)} | {
        own.name: by for by, own in zip(by_position, schema.returns) if own.name
    }


def saved_tensors():
    """{(operator, operand): the formulas that read it} of all saved tensors that may be floats."""
    import torchgen
    from torchgen.packaged.autograd.load_derivatives import load_derivatives

    packaged = Path(torchgen.__file__).parent / "packaged"
    native = (str(packaged / "ATen/native" / name) for name in ("native_functions.yaml", "tags.yaml"))
    infos, _ = load_derivatives(str(packaged / "autograd/derivatives.yaml"), *native)
    saved = defaultdict(list)
    for by_key in infos.values():
        info = by_key.get("Default")
        if info is None:
            continue
        schema = info.func.func
        op = base_name(str(schema.name.name))
        named = outputs(schema)
        for attribute in (*info.all_saved_inputs, *info.all_saved_outputs):
            name = getattr(attribute.nctype.name, "name", attribute.nctype.name)
            if not re.search(r"name='Tensor(List)?'", str(attribute.nctype.type)):
                continue  # sizes, options and the like
            output = attribute in info.all_saved_outputs
            operand = named.get(name, name) if output and not name.startswith("result") else name
            integer = NOT_FLOAT.fullmatch(name) or (
                INTEGER_OUTPUTS.fullmatch(op) if output else name in TARGETS and INTEGER_TARGETS.fullmatch(op)
            )
            if not integer:
                reads = [d.formula for d in info.derivatives if re.search(rf"\b{name}\b", d.formula)]
                saved[op, operand] += reads
    return saved


def group_of(op, formulas):
    """What a formula's text says about how it reads the operand. "unread" and "sign only" are not in the text."""
    if any(re.search(r"_backward|_differential|_symint", f) for f in formulas):
        return "read by a function"
    if any(COMPARES_OR_DIVIDES.search(f) for f in formulas):
        return "compares or divides"
    return "smooth" if any(SMOOTH.search(f) for f in formulas) else "linear"


def rows():
    return ROW.findall(FACTS.read_text())


def misspelt():
    known, facts, contacts = schemas(), set(rows()), CONTACT.findall(READS.read_text())
    pairs = [*rows(), *(contact[:2] for contact in contacts), *((op, "*") for op in EFFECT.findall(READS.read_text()))]
    wrong = [
        f"aten::{op} has no {operand}" if op in known else f"no operator aten::{op}"
        for op, operand in pairs
        if op not in known or operand not in known[op] | {"*"}
    ]
    return wrong + [
        f"no fact about {operand} of aten::{op}"
        for *_, op, operand in contacts
        if not {(op, operand), (op, "*")} & facts
    ]


def print_share(title, pairs, facts):
    covered = {pair for pair in pairs if pair in facts or (pair[0], "*") in facts}
    ops = {op for op, _ in pairs}
    whole = ops - {op for op, _ in pairs - covered}
    print(
        f"{title}: {len(covered)} of {len(pairs)} operands ({100 * len(covered) / len(pairs):.0f} %), "
        f"{len(whole)} of {len(ops)} operators with all of theirs ({100 * len(whole) / len(ops):.0f} %)"
    )
    return pairs - covered


def main():
    wrong = misspelt()
    if wrong or "--check" in sys.argv:
        print("\n".join(wrong), end="\n" if wrong else "")
        return 1 if wrong else 0
    facts, saved = set(rows()), saved_tensors()
    print(f"torch {torch.__version__}: float tensors that autograd saves, and facts about them")
    elsewhere = {pair for pair in saved if ELSEWHERE.fullmatch(pair[0])}
    backward = {pair for pair in saved if "_backward" in pair[0]} - elsewhere
    print_share("all", set(saved), facts)
    for title, pairs in [
        ("first derivatives", set(saved) - backward - elsewhere),
        ("derivatives of derivatives", backward),
        ("other devices and layouts, lists of tensors", elsewhere),
    ]:
        groups = defaultdict(list)
        for op, operand in sorted(print_share(title, pairs, facts)):
            groups[group_of(op, saved[op, operand])].append((op, operand))
        for group, without in sorted(groups.items()):
            print(f"  without a fact, {group}:")
            for op in dict.fromkeys(op for op, _ in without):
                print(f"    {op}: {', '.join(operand for o, operand in without if o == op)}")
    unsaved = [f"{op} {operand}" for op, operand in rows() if operand != "*" and (op, operand) not in saved]
    print("rows about operands that are integers, or saved under another name or by no formula:")
    print("  " + ", ".join(unsaved))
    return 0


if __name__ == "__main__":
    sys.exit(main())
