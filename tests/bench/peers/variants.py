# SPDX-License-Identifier: Apache-2.0
"""The study's models and variants."""

import dataclasses
import pathlib
import subprocess
from collections.abc import Callable

import changes
from child_run import clean_environment
from host_allocator import OPPONENTS


@dataclasses.dataclass(frozen=True)
class Model:
    title: str
    data: str
    metric: str
    steps: int
    digits: int = 2


MODELS = {
    "cnn": Model("CNN", "five convolutions with batch norm and max-pool, scikit-learn's digits at 32 x 32, batches of 256", "test accuracy, %", 100),
    "resnet": Model("ResNet", "ResNet-18 at a quarter of its width, scikit-learn's digits at 32 x 32, batches of 128", "test accuracy, %", 36),
    "gpt": Model("GPT", "byte-level, 4 layers of 128, the standard library's source, batches of 48 x 128", "test bits a byte (less is better)", 34, 3),
    "bert": Model("BERT", "4 layers of 64, which package of the standard library 128 bytes of source are from, batches of 128", "test accuracy, %", 60),
    "vit": Model("ViT", "4 layers of 64, patches of 4 x 4, the digits at 32 x 32, batches of 128", "test accuracy, %", 75),
    "unet": Model("U-Net", "two levels of 16 and 32 channels with group norm and SiLU, the digits at 32 x 32 out of noise of their own size, batches of 160", "test signal-to-noise ratio, dB", 34),
}  # fmt: skip

PLAIN = "plain"
QUICK_STEPS = 3
WARM_UP = 3  # steps that the median leaves out: compiling, allocators' and policies' first steps

OBSERVED = "Activations: counted in one more step, after the timed ones, by hooks that see what autograd saves."


@dataclasses.dataclass(frozen=True)
class Variant:
    """One row. `note` says what it is and how its activations are counted."""

    note: str
    change: Callable = changes.none
    preload: str = ""
    cinch: tuple[str, ...] | None = None  # arguments of `cinch run`


def default_policy(cinch: pathlib.Path) -> str | None:
    """The policy of a `cinch run` that names none; None where there is no Cinch."""
    if not cinch.is_file():
        return None
    told = subprocess.run([cinch, "env", "--format", "plain"], capture_output=True, text=True, env=clean_environment())
    return next((line.partition("=")[2] for line in told.stdout.splitlines() if line.startswith("CINCH_POLICY=")), None)


def variants(default: str | None) -> dict[str, Variant]:
    """All rows in their order, when `cinch run` takes the policy `default` where none is named."""
    found = {
        PLAIN: Variant("the program as it is. " + OBSERVED),
        "tcmalloc": Variant("the same with gperftools' tcmalloc_minimal preloaded. Activations: as plain.", preload=OPPONENTS["tcmalloc"]),
        "jemalloc": Variant("the same with jemalloc preloaded. Activations: as plain.", preload=OPPONENTS["jemalloc"]),
        "checkpoint": Variant(
            "`torch.utils.checkpoint` on every block, not reentrant. Activations: as plain; at the peak these are all blocks' inputs and "
            "what the block that is being recomputed saves. Batch norms see each batch twice, so their running statistics differ from plain's.",
            changes.checkpoint,
        ),
        "compile": Variant(
            "`torch.compile(model)`, inductor. Activations: as plain (what the compiled forward hands to its backward). RSS has "
            "the compiler's own memory in it.",
            changes.compiled,
        ),
        "compile, budget 0.5": Variant(
            "the same with `torch._functorch.config.activation_memory_budget = 0.5`. Activations: as for compile; what the compiled "
            "backward recomputes is not seen by hooks, but in RSS it is.",
            changes.compiled_with_budget,
        ),
        **{
            f"hooks, {bits} bits": Variant(
                f"`saved_tensors_hooks` in Python: groups of 256 at {bits} bits with a 32-bit zero point and scale each, rounded "
                "stochastically by torch operators. Parameters, integers and tensors of less than 65,536 elements (statistics, log-sum-exp) are left alone; "
                "what is saved twice is quantized twice. Activations: as plain, of what the hooks return.",
                changes.hooks(bits),
            )
            for bits in (4, 2)
        },
    }  # fmt: skip
    stash = "Activations: the report's bytes at the peak, and in full what plain would save beyond the report's raw bytes."
    policies = {
        "lossless": "nothing approximated",
        "default": "the preset",
        "budget": "the preset, which chooses bits for a tenth of the raw bytes",
    }
    for policy, what in policies.items():
        arguments = ("--policy", policy)
        if policy == default:
            what, arguments = what + ", and what `cinch run` does when no policy is named", ()
        found[f"cinch {policy}"] = Variant(f"`cinch run`, {what}. {stash}", cinch=arguments)
    if default and default not in policies:
        found["cinch (default)"] = Variant(f"`cinch run` when no policy is named, which is `{default}`. {stash}", cinch=())
    return found
