# SPDX-License-Identifier: Apache-2.0
"""Runs programs plainly or under the preload, and compares what they computed.

The build under test is $CINCH_BUILD_DIR. torch is imported where it is used: that takes seconds, and many modules'
tests need it in the programs they start only.
"""

import collections
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

BUILD = pathlib.Path(os.environ["CINCH_BUILD_DIR"])
CINCH = BUILD / "bin/cinch"
PRELOAD = BUILD / "lib/libcinch.so"
CORE = BUILD / "lib/libcinch_torch.so"
# Preloaded beside Cinch: its side thread sleeps for up to $E2E_SLOW_US each time that it gives back a lock.
SLOW_THREAD = BUILD / "lib/libe2e_slow_thread.so"
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CONFIGS = ROOT / "configs"

LOSSLESS = {"version": 1, "policy": "lossless", "min_bytes": 0, "raw_window": 0}
# So few bits for what smooth activations are computed from that an error of theirs shows.
TWO_BITS = {
    "version": 1, "policy": "default", "min_bytes": 0, "raw_window": 0,
    "rules": [{"match": {"op": "aten::*lu"}, "codec": {"name": "group_quant", "bits": 2, "dither": "subtractive"}}],
}  # fmt: skip


def preset(name: str) -> dict:
    """The policy file of a preset, changed so that tensors of all sizes are taken, and at once."""
    return json.loads((CONFIGS / f"{name}.json").read_text()) | {"min_bytes": 0, "raw_window": 0}


@dataclasses.dataclass
class Run:
    """A program that has ended."""

    status: int
    stdout: str
    stderr: str
    report: dict | None


def plain_environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """The caller's environment without anything that would load or steer Cinch."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CINCH_") and k != "LD_PRELOAD"}
    # OpenMP's threads would spin while they wait, which on a busy machine takes several times as long.
    env |= {"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "passive"}
    return env | (extra or {})


def preload_environment(folder: pathlib.Path, policy: str | dict, *beside: pathlib.Path) -> dict[str, str]:
    """What a bare LD_PRELOAD of Cinch needs, and of libraries beside it: `policy` is a preset's name or a policy file's
    content."""
    if isinstance(policy, dict):
        file = folder / "policy.json"
        file.write_text(json.dumps(policy))
        policy = str(file)
    return {
        "LD_PRELOAD": " ".join(map(str, [PRELOAD, *beside])),
        "CINCH_POLICY": policy,
        "CINCH_REPORT": str(folder / "report-%p.json"),
        "CINCH_STRICT": "1",
        "E2E_CORE": str(CORE),
    }


def run(command: list, env: dict[str, str], timeout: float = 600) -> Run:
    """Runs `command` to its end, whatever its exit status, and reads the report of that very process."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its children would keep the pipes open
        stdout, stderr = process.communicate()
        raise AssertionError(f"still running after {timeout} s: {command}\n{stdout}\n{stderr}") from None
    report = pathlib.Path(env.get("CINCH_REPORT", "").replace("%p", str(process.pid)))
    return Run(process.returncode, stdout, stderr, json.loads(report.read_text()) if report.is_file() else None)


def run_python(
    arguments: list,
    folder: pathlib.Path,
    policy: str | dict | None = None,
    extra: dict[str, str] | None = None,
    beside: tuple[pathlib.Path, ...] = (),
) -> Run:
    """Runs Python with `arguments`: plainly, or under the preload, and libraries beside it, when there is a `policy`.

    The program must succeed, and under the preload Cinch must have been active.
    """
    folder.mkdir(parents=True, exist_ok=True)
    env = plain_environment(extra) | (preload_environment(folder, policy, *beside) if policy is not None else {})
    done = run([sys.executable, *arguments], env)
    assert done.status == 0, f"exit status {done.status}\n{done.stdout}\n{done.stderr}"
    if policy is not None:
        assert done.report is not None, "no report was written"
        assert done.report["active"], done.report["inactive_reason"]
    return done


@dataclasses.dataclass
class Outcome:
    """What one workload did (see child.py)."""

    values: dict
    stash_bytes: int | None
    taken: int | None


@dataclasses.dataclass
class Workloads:
    """A module of workloads that has been run in one process."""

    run: Run
    outcomes: dict[str, Outcome]

    def check_nothing_is_wrong(self, plain: "Workloads"):
        """Under a policy that may approximate: nothing is printed, kept, or not finite that is so plainly."""
        import torch

        assert new_lines(self.run.stderr, plain.run.stderr) == []
        assert sum(outcome.taken for outcome in self.outcomes.values()) > 0
        for name, outcome in self.outcomes.items():
            assert outcome.stash_bytes == 0, name
            expected = plain.outcomes[name].values
            assert outcome.values.keys() == expected.keys(), name
            for key, value in outcome.values.items():
                if isinstance(value, torch.Tensor):
                    assert value.shape == expected[key].shape and value.dtype == expected[key].dtype, (name, key)
                    assert value.isfinite().all() or not expected[key].isfinite().all(), (name, key)


def run_workloads(
    module: str,
    folder: pathlib.Path,
    policy: str | dict | None = None,
    processes: int | None = None,
    threads: int | None = None,
    extra: dict[str, str] | None = None,
    only: list[str] | None = None,
) -> Workloads:
    """Runs every workload of workloads/`module`.py, or `only` some, in one process, or in each of several that
    torchrun starts.

    `threads` bounds the threads that an operator may use; several processes have one each. `extra` goes
    into the environment.
    """
    folder.mkdir(parents=True, exist_ok=True)
    import torch

    output = folder / "outcomes.pt"
    program = [HERE / "child.py", module, output, *(only or [])]
    extra = (extra or {}) | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
    if processes is None:
        done = run_python(program, folder, policy, extra)
        saved = torch.load(output, weights_only=True)
        return Workloads(done, {name: Outcome(**outcome) for name, outcome in saved.items()})
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = run_python([*torchrun, *program], folder, policy, extra | {"OMP_NUM_THREADS": "1"})
    ranks = [torch.load(f"{output}.{rank}", weights_only=True) for rank in range(processes)]
    return Workloads(done, {name: merged([outcomes[name] for outcomes in ranks]) for name in ranks[0]})


def merged(outcomes: list[dict]) -> Outcome:
    """One outcome of what several processes did: all their values, and the worst of what Cinch did."""
    values = {f"rank{rank}.{key}": value for rank, each in enumerate(outcomes) for key, value in each["values"].items()}
    if outcomes[0]["taken"] is None:
        return Outcome(values, None, None)
    return Outcome(values, max(each["stash_bytes"] for each in outcomes), min(each["taken"] for each in outcomes))


def new_lines(stderr: str, plain_stderr: str) -> list[str]:
    """Lines of `stderr` that the plain run did not print (as often), whatever the numbers in them: some
    warnings of PyTorch begin with the time and the process."""

    def lines(text: str) -> collections.Counter:
        return collections.Counter(re.sub(r"\d+", "#", line) for line in text.splitlines())

    added = lines(stderr) - lines(plain_stderr)
    return [line for line in stderr.splitlines() if added[re.sub(r"\d+", "#", line)] > 0]


def same_bits(left, right) -> bool:
    """Equal type and content; of tensors also dtype, shape and every bit (so -0 is not 0, NaN is NaN)."""
    import torch

    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        left, right = (t.contiguous().reshape(-1).view(torch.uint8) for t in (left, right))
        return torch.equal(left, right)
    return type(left) is type(right) and left == right


def difference_text(different: dict[str, tuple]) -> str:
    """The first few of several pairs (plain, with Cinch) that should have been the same."""
    import torch

    lines = [f"{len(different)} values differ (plain, with Cinch)"]
    for key, values in list(different.items())[:4]:
        lines += [key] + [f"  {value.flatten()[:6] if isinstance(value, torch.Tensor) else value}" for value in values]
    return "\n".join(lines)


@dataclasses.dataclass(repr=False)
class Pair:
    """The same workloads without and with Cinch."""

    plain: Workloads
    cinch: Workloads

    def check(self, name: str, takes: bool | None = True):
        """A workload computed the same bits, Cinch took part in it (or, as told, did not; None: either),
        and its stash was empty afterwards."""
        plain, cinch = self.plain.outcomes[name], self.cinch.outcomes[name]
        assert plain.values.keys() == cinch.values.keys()
        different = {
            key: (plain.values[key], cinch.values[key])
            for key in plain.values
            if not same_bits(plain.values[key], cinch.values[key])
        }
        assert not different, difference_text(different)
        assert takes in (None, cinch.taken > 0), f"{cinch.taken} tensors taken"
        assert cinch.stash_bytes == 0

    def check_silence(self):
        """Cinch made the program print nothing on stderr that it does not print anyway."""
        assert new_lines(self.cinch.run.stderr, self.plain.run.stderr) == []


def run_pair(module: str, folder: pathlib.Path, policy: str | dict = LOSSLESS, **options) -> Pair:
    """`options` as run_workloads() has them."""
    return Pair(
        run_workloads(module, folder / "plain", None, **options),
        run_workloads(module, folder / "cinch", policy, **options),
    )
