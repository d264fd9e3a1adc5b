# SPDX-License-Identifier: Apache-2.0
"""What a user has to change in a program for each peer. The changed program is what runs, so the count of lines is true."""

import ast
import dataclasses
import difflib
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent
PROGRAM = (FOLDER / "program.py").read_text()

IMPORT = "import torch\n"
MODEL = "    model = task.model\n"
LOSS = "        loss = task.loss(model)\n"

# Which of a model's parts are its blocks.
BLOCKS = {
    "cnn": "model",
    "resnet": "[*model.layer1, *model.layer2, *model.layer3, *model.layer4]",
    "gpt": "model.blocks",
    "bert": "model.blocks",
    "vit": "model.blocks",
    "unet": "[model.down1, model.down2, model.middle, model.up2, model.up1]",
}


@dataclasses.dataclass(frozen=True)
class Change:
    """Lines of the program by the lines that take their place, and a file that the user writes besides."""

    lines: dict[str, str] = dataclasses.field(default_factory=dict)
    file: str | None = None


def checkpoint(model: str) -> Change:
    return Change({
        IMPORT: "import functools\n\n" + IMPORT + "from torch.utils.checkpoint import checkpoint\n",
        MODEL: MODEL
        + f"    for block in {BLOCKS[model]}:\n"
        + "        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)\n",
    })  # fmt: skip


def compiled(_: str) -> Change:
    return Change({
        MODEL: MODEL + "    compiled = torch.compile(model)\n",
        LOSS: LOSS.replace("model", "compiled"),
    })  # fmt: skip


def compiled_with_budget(model: str) -> Change:
    config = "import torch._functorch.config\n"
    setting = "    torch._functorch.config.activation_memory_budget = 0.5\n"
    lines = compiled(model).lines
    return Change(lines | {IMPORT: IMPORT + config, MODEL: lines[MODEL].replace(MODEL, MODEL + setting)})


def hooks(bits: int):
    def change(_: str) -> Change:
        return Change({
            IMPORT: IMPORT + "from torch.autograd.graph import saved_tensors_hooks\n",
            "from small_models": "from quantized_hooks import Quantizer\nfrom small_models",
            MODEL: MODEL + f"    quantizer = Quantizer(model.parameters(), bits={bits})\n",
            LOSS: "        with saved_tensors_hooks(quantizer.pack, quantizer.unpack):\n    " + LOSS,
        }, file="quantized_hooks.py")  # fmt: skip

    return change


def none(_: str) -> Change:
    return Change()


def changed(change: Change, program: str = PROGRAM) -> str:
    """The program with `change` made. @raises ValueError when the lines to be replaced are not there exactly once"""
    for old, new in change.lines.items():
        if program.count(old) != 1:
            raise ValueError(f"found {old!r} {program.count(old)} times, expected once")
        program = program.replace(old, new)
    return program


def code_lines(source: str) -> list[str]:
    """The lines of a Python file without blank ones, comments and docstrings."""
    skipped = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            skipped.update(range(node.lineno, node.end_lineno + 1))
    numbered = enumerate(source.splitlines(), 1)
    return [line for n, line in numbered if n not in skipped and line.strip() and not line.strip().startswith("#")]


def touched_lines(change: Change, program: str = PROGRAM) -> int:
    """How many lines the user adds, changes or removes in the program, and those of the file that is added."""
    before, after = code_lines(program), code_lines(changed(change, program))
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    count = sum(max(i2 - i1, j2 - j1) for what, i1, i2, j1, j2 in blocks if what != "equal")
    return count + (len(code_lines((FOLDER / change.file).read_text())) if change.file else 0)


def diff(change: Change, program: str = PROGRAM) -> str:
    """What `touched_lines` counts in the program, to be read."""
    after = changed(change, program)
    return "".join(difflib.unified_diff(program.splitlines(True), after.splitlines(True), "program.py", "program.py", n=0))
