# SPDX-License-Identifier: Apache-2.0
"""Trains other people's architectures for some steps, plainly and under policies, and tells what came of it.

    architectures.py [--libraries timm transformers] [--build DIR] [--jobs N] [--only NAME …] [--write FILE.md]

Of timm the smallest model of each family; of transformers each language, sequence and image model that its configuration
lets be made small. All are made anew, with random weights and data. Each trains in a child of one process that has
imported the library; what can't be made or trained without Cinch is left out, and counted. The exit status is 1 when a
model fails, or trains to other bits, under `lossless`.
"""

import argparse
import collections
import concurrent.futures
import datetime
import hashlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import warnings

import zoo
from zoo import POLICIES, ROOT

STEPS = 4
MOST_SECONDS = 150
MOST_PARAMETERS = 30e6

# What configurations call how large they are, and what is small enough.
SMALL = {
    "hidden_size d_model n_embd dim embed_dim embedding_size emb_dim": 64,
    "hidden_dim": 128,
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers": 2,
    "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads": 4,
    "num_key_value_heads n_shared_experts num_shared_experts linear_num_key_heads num_experts_per_tok": 2,
    "intermediate_size ffn_dim encoder_ffn_dim decoder_ffn_dim d_ff n_inner ffn_hidden_size": 160,
    "moe_intermediate_size shared_expert_intermediate_size": 48,
    "vocab_size vocab_size_per_layer_input": 256,
    "head_dim d_kv attention_head_size rotary_dim kv_lora_rank q_lora_rank v_head_dim state_size mamba_d_state": 16,
    "num_local_experts num_experts n_routed_experts moe_num_experts mamba_n_heads linear_num_value_heads": 4,
    "qk_rope_head_dim qk_nope_head_dim": 8,
    "max_position_embeddings n_positions": 128,
    "image_size lru_width": 64,
    "n_group topk_group first_k_dense_replace": 1,
    "sliding_window": 32,
    "pad_token_id": 0,
    "bos_token_id decoder_start_token_id": 1,
    "eos_token_id": 2,
}
KINDS = {
    "CAUSAL_LM": "AutoModelForCausalLM",
    "MASKED_LM": "AutoModelForMaskedLM",
    "SEQ_TO_SEQ_CAUSAL_LM": "AutoModelForSeq2SeqLM",
    "IMAGE_CLASSIFICATION": "AutoModelForImageClassification",
}


def shrink(config):
    """Sets all sizes of a configuration, and of those within it, that are single numbers."""
    for names, size in SMALL.items():
        for name in names.split():
            old = getattr(config, name, None)
            if isinstance(old, (int, float)) or name.endswith("token_id"):
                try:
                    setattr(config, name, size)
                except Exception:
                    pass
    kinds = getattr(config, "layer_types", None)
    if isinstance(kinds, list):
        config.layer_types = (list(dict.fromkeys(kinds)) * 2)[: max(2, len(set(kinds)))]
        config.num_hidden_layers = len(config.layer_types)
    for part in vars(config).values():
        if hasattr(part, "to_dict"):
            shrink(part)
    return config


class Timm:
    """Names of models; their losses."""

    @staticmethod
    def names() -> list[str]:
        import timm
        import torch

        smallest = {}
        for name in timm.list_models():
            module = timm.models._registry._model_to_module[name]
            try:
                with torch.device("meta"):
                    size = sum(p.numel() for p in timm.create_model(name).parameters())
            except Exception:
                continue
            smallest[module] = min(smallest.get(module, (size, name)), (size, name))
        return sorted(name for size, name in smallest.values() if size < MOST_PARAMETERS)

    @staticmethod
    def prepare() -> None:
        import timm  # noqa: F401

    @staticmethod
    def make(name):
        import timm
        import torch

        labels = torch.tensor([1, 2])
        for size in (64, 96, 128, 224, 256):
            for options in ({"img_size": size}, {}):
                try:
                    model = timm.create_model(name, num_classes=10, **options).eval()
                    images = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
                    with torch.no_grad():
                        model(images)
                except Exception:
                    continue
                return model, lambda: torch.nn.functional.cross_entropy(model(images), labels)
        raise ValueError("no size of images fits")


class Transformers:
    @staticmethod
    def names() -> list[str]:
        from transformers.models.auto import modeling_auto

        mappings = ((kind, getattr(modeling_auto, f"MODEL_FOR_{kind}_MAPPING_NAMES")) for kind in KINDS)
        return [f"{kind}:{name}" for kind, mapping in mappings for name in mapping]

    @staticmethod
    def prepare() -> None:
        import torchvision  # noqa: F401
        from transformers import BartModel, BertModel, LlamaModel, ViTModel  # noqa: F401

    @staticmethod
    def make(name):
        import torch
        import transformers

        kind, name = name.split(":")
        config = shrink(transformers.AutoConfig.for_model(name))
        if hasattr(config, "qk_rope_head_dim") and hasattr(config, "head_dim"):
            config.head_dim = config.qk_rope_head_dim
        model = getattr(transformers, KINDS[kind]).from_config(config)
        generator = torch.Generator().manual_seed(1)
        if kind == "IMAGE_CLASSIFICATION":
            size = config.image_size if isinstance(getattr(config, "image_size", None), int) else 64
            given = {"pixel_values": torch.randn(2, 3, size, size, generator=generator), "labels": torch.tensor([1, 2])}
        else:
            tokens = torch.randint(3, 200, (4, 64), generator=generator)
            given = {"input_ids": tokens, "labels": tokens}
            if kind == "CAUSAL_LM":
                given["use_cache"] = False
        return model, lambda: model(**given).loss


HEAD = [
    "# Other people's architectures",
    "",
    "Models of other people's libraries, made anew and small, trained for some steps plainly, under `lossless` and under the",
    "default preset. [The zoo](zoo.md) has fewer programs, which train for longer.",
    "",
    "    .venv/bin/python tests/zoo/architectures.py --write docs/architectures.md",
    "",
    "Batches are of 2 images or 4 lines of 64 tokens, so much is smaller than a policy takes, or is held in the more bits that",
    "small tensors get. Real trainings have higher ratios.",
    "",
]
LIBRARIES = {"timm": Timm, "transformers": Transformers}


def train(library: str, name: str) -> dict:
    """In a child: a digest of losses and weights after some steps, or what went wrong."""
    import torch

    signal.alarm(MOST_SECONDS)
    torch.manual_seed(0)
    model, loss_of = LIBRARIES[library].make(name)
    if sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS:
        raise ValueError("larger than it was to be")
    model.train()
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    digest = hashlib.sha256()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        digest.update(repr(loss.item()).encode())
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return {"digest": digest.hexdigest()}


def serve(library: str, folder: str, names: list[str]) -> None:
    """Trains one after another; child N leaves N.json."""
    import torch

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    LIBRARIES[library].prepare()
    for name in names:
        child = os.fork()
        if child != 0:
            os.waitpid(child, 0)
            continue
        try:
            outcome = train(library, name)
        except Exception as error:
            outcome = {"error": f"{type(error).__name__}: {error}"[:200]}
        pathlib.Path(f"{folder}/{os.getpid()}.json").write_text(json.dumps({"name": name} | outcome))
        return  # as programs end, so that what is registered for the exit runs


def measure(build: pathlib.Path, library: str, policy: str | None, names: list[str]) -> dict[str, dict]:
    """{name: what came of it, with the report of a run under a policy}. Who left nothing is not there."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--serve", library, folder, *names]
        if policy is not None:
            cinch = [build / "bin/cinch", "run", "--quiet", "--no-telemetry", "--policy", policy]
            command = [*map(str, cinch), "--report", f"{folder}/%p.report", "--", *command]
        subprocess.run(command, env=zoo.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        found = {}
        for file in pathlib.Path(folder).glob("*.json"):
            outcome = json.loads(file.read_text())
            report = file.with_suffix(".report")
            if report.exists():
                outcome["report"] = json.loads(report.read_text())
            found[outcome["name"]] = outcome
        return found


def largest(report: dict) -> str:
    """What takes most of what is stored."""
    held = sum(op["stored_bytes"] for op in report["ops"])
    most = max(report["ops"], key=lambda op: op["stored_bytes"], default=None)
    if most is None:
        return ""
    return f"{most['stored_bytes'] / held:.0%} {most['op'].removeprefix('aten::')} {most['operand']}, {most['codec']}"


def compare(plain: dict, found: dict[str, dict]) -> tuple[list, collections.Counter, list[str]]:
    """Rows (ratio under the default, name, ratio under lossless, what most is held for), what was left out, and what
    is wrong."""
    rows, left_out, wrong = [], collections.Counter(), []
    for name, outcome in sorted(plain.items()):
        if "error" in outcome:
            left_out[outcome["error"].split(":")[0]] += 1
            continue
        lossless, default = (found[policy].get(name, {"error": "killed"}) for policy in POLICIES)
        if lossless.get("digest") != outcome["digest"]:
            wrong.append(f"`{name}` under `lossless`: {lossless.get('error', 'other bits')}")
        elif "digest" not in default:
            wrong.append(f"`{name}` under the default: {default['error']}")
        elif default["report"]["ratio"] and lossless["report"]["ratio"]:
            rows.append((default["report"]["ratio"], name, lossless["report"]["ratio"], largest(default["report"])))
    return sorted(rows), left_out, wrong


def section(library: str, rows: list, left_out: collections.Counter, wrong: list[str]) -> list[str]:
    means = [statistics.geometric_mean(row[column] for row in rows) for column in (2, 0)]
    without = sum(left_out.values())
    reasons = ", ".join(f"{count} {error}" for error, count in left_out.most_common(3))
    return [
        f"**{library}**: {len(rows)} trained to the same bits under `lossless`, at {means[0]:.2f}, and at {means[1]:.1f} under the",
        f"default (geometric means). {without} could not be made so small, or trained so, without Cinch"
        + (f" ({reasons})." if without else "."),
        *(f"Wrong: {each}." for each in wrong),
        "",
        "| least under the default | lossless | default | most is held for |",
        "|---|---:|---:|---|",
        *(f"| `{name}` | {lossless:.2f} | {default:.1f} | {most} |" for default, name, lossless, most in rows[:8]),
        "",
    ]


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], sys.argv[3], sys.argv[4:])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="models at a time")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE.md")
    arguments = parser.parse_args()
    lines, failed = [*HEAD, f"{datetime.date.today().isoformat()}, CPU, {STEPS} steps each.", ""], False
    for library in arguments.libraries:
        names = arguments.only or LIBRARIES[library].names()
        parts = [names[i :: arguments.jobs] for i in range(arguments.jobs)]
        found = {}
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for policy in [None, *POLICIES]:
                outcomes = pool.map(lambda part: measure(arguments.build, library, policy, part), parts)
                found[policy] = {name: outcome for each in outcomes for name, outcome in each.items()}
        rows, left_out, wrong = compare(found[None], found)
        failed |= bool(wrong)
        lines += section(library, rows, left_out, wrong)
    text = "\n".join(lines)
    print(text)
    if arguments.write:
        arguments.write.write_text(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
