# SPDX-License-Identifier: Apache-2.0
"""Compares the facts of policy/operators/operand.cpp with the derivative formulas of the installed torch.

Prints what the facts say of the float tensors that autograd saves. Lists those without a fact, and rows of operand.cpp
and of backward_reads.cpp whose operator or operand torch does not have, or of the latter those that operand.cpp has no
fact for; fails if there is one.

Which tensors a formula saves is asked of torchgen, the code generator that PyTorch itself is built with. It
ships with torch, but needs PyYAML, which comes with transformers.
"""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import torch

FACTS = Path(__file__).parents[3] / "policy/operators/operand.cpp"

READS = FACTS.with_name("backward_reads.cpp")

# {"operator operator …", "operand operand …", fact} or {…, …, fact, fact about all other operands}
GROUP = re.compile(r'\{((?:\s*"[\w ]+")+),\s*"([\w ]+|\*)",\s*(\w+)(?:,\s*(\w+))?\}')
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

# What to call facts of different names that say the same of values.
SAME = {
    "rows": "approximate",
    "signed_rows": "approximate",
    "rows_for_others": "approximate",
    "spatial": "approximate",
    "spatial_for_others": "approximate",
    "factor": "approximate",
    "factor_for_others": "approximate",
    "signed_factor": "approximate",
    "factor_with_poles": "approximate",
    "angle": "approximate",
    "base": "by an argument",
    "normed": "by an argument",
    "reduced": "by an argument",
    "compared_with_other": "sign or interval",
    "sign": "sign or interval",
    "open_interval": "sign or interval",
    "interval_3": "sign or interval",
    "closed_interval": "sign or interval",
    "at_least": "sign or interval",
    "at_most": "sign or interval",
    "above": "sign or interval",
    "around_0": "sign or interval",
    "exact_mask": "exact",
    "exact_unless_named": "exact",
}


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


def facts_of_rows():
    """{(operator, operand): fact} of all rows."""
    text = FACTS.read_text()
    found = {}
    for ops, operands, fact, others in GROUP.findall(text[text.index("groups[] = {") :]):
        for op in ops.replace('"', " ").split():
            found |= {(op, operand): fact for operand in operands.split()} | ({(op, "*"): others} if others else {})
    return found


def misspelt(facts):
    known, contacts = schemas(), CONTACT.findall(READS.read_text())
    pairs = [*facts, *(contact[:2] for contact in contacts), *((op, "*") for op in EFFECT.findall(READS.read_text()))]
    wrong = [
        f"aten::{op} has no {operand}" if op in known else f"no operator aten::{op}"
        for op, operand in pairs
        if op not in known or operand not in known[op] | {"*"}
    ]
    return wrong + [
        f"no fact about {operand} of aten::{op}"
        for *_, op, operand in contacts
        if not {(op, operand), (op, "*")} & facts.keys()
    ]


def print_share(title, pairs, facts):
    """@return those of pairs that there is no fact about"""
    said = {(op, operand): facts.get((op, operand), facts.get((op, "*"))) for op, operand in pairs}
    without = {pair for pair, fact in said.items() if fact is None}
    ops = {op for op, _ in pairs}
    whole = ops - {op for op, _ in without}
    print(
        f"{title}: {len(pairs) - len(without)} of {len(pairs)} operands, "
        f"{len(whole)} of {len(ops)} operators with all of theirs"
    )
    counts = Counter(SAME.get(fact, fact) for fact in said.values() if fact is not None)
    print("  " + ", ".join(f"{count} {fact}" for fact, count in counts.most_common()))
    return without


def main():
    facts = facts_of_rows()
    saved = saved_tensors()
    wrong = misspelt(facts)
    print(f"torch {torch.__version__}: float tensors that autograd saves, and facts about them")
    elsewhere = {pair for pair in saved if ELSEWHERE.fullmatch(pair[0])}
    backward = {pair for pair in saved if "_backward" in pair[0]} - elsewhere
    print_share("all", set(saved), facts)
    for title, pairs in [
        ("first derivatives", set(saved) - backward - elsewhere),
        ("derivatives of derivatives", backward),
        ("other devices and layouts, lists of tensors", elsewhere),
    ]:
        wrong += [
            f"no fact about {operand} of aten::{op}: {'; '.join(saved[op, operand])}"
            for op, operand in sorted(print_share(title, pairs, facts))
        ]
    unsaved = [f"{op} {operand}" for op, operand in facts if operand != "*" and (op, operand) not in saved]
    print("rows about operands that are integers, or saved under another name or by no formula:")
    print("  " + ", ".join(unsaved))
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
