# SPDX-License-Identifier: Apache-2.0
"""What gpu-check's stages share: rows, time, the build under test, child processes."""

import dataclasses
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from typing import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/gpu"
BUNDLE = ROOT / ".gpu"
MIB = 1 << 20
GIB = 1 << 30

# Of a row. "failed": something is wrong. "missed": a target. "not run": and the note says why.
VERDICTS = ("passed", "met", "measured", "missed", "failed", "not run")


class Failure(Exception):
    """Something is wrong with what is checked; the text goes into a row."""


class NotHere(Exception):
    """What a check needs is not on this machine or in this build; the text goes into a row."""


@dataclasses.dataclass
class Row:
    stage: str
    what: str
    verdict: str
    figure: str = ""
    target: str = ""
    values: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Done:
    """A program that has ended; `status` is None when its time was up."""

    status: int | None
    stdout: str
    stderr: str
    report: dict | None

    def last_json(self) -> dict:
        """What the program printed last. @raises Failure when it failed or printed none"""
        if self.status != 0:
            end = (self.stderr or self.stdout).strip().splitlines()[-1:] or [""]
            how = "its time was up" if self.status is None else f"exit status {self.status}"
            raise Failure(f"{how}: {end[0][:300]}")
        try:
            return json.loads(self.stdout.strip().splitlines()[-1])
        except (IndexError, json.JSONDecodeError):
            raise Failure("printed no result") from None


class Context:
    """One stage's surroundings. `seconds` is its time limit; rows gather in `rows`, and `added` is called
    with each, one at a time."""

    def __init__(self, stage: str, seconds: float, build: pathlib.Path, out: pathlib.Path, tiny: bool, fake: bool,
                 cases: list[str] = (), added: Callable[[Row], None] = lambda row: None):  # fmt: skip
        self.stage, self.build, self.out, self.tiny, self.fake = stage, build, out, tiny, fake
        self.cases = list(cases)
        self.added = added
        self.began = time.monotonic()
        self.until = self.began + seconds
        self.rows: list[Row] = []
        out.mkdir(parents=True, exist_ok=True)
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu-check-"))  # $OUT brings few files back
        self._log = (out / "gpu-check.log").open("a")
        self._lock = threading.Lock()
        self._runs = 0

    def close(self):
        self._log.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def remaining(self) -> float:
        return max(0.0, self.until - time.monotonic())

    def log(self, text: str):
        with self._lock:
            print(f"[{self.stage}] {text}", file=self._log, flush=True)

    def row(self, what: str, verdict: str, figure: str = "", target: str = "", **values):
        assert verdict in VERDICTS, verdict
        row = Row(self.stage, what, verdict, figure, target, values)
        with self._lock:
            self.rows.append(row)
            self.added(row)
        print(f"  {verdict:9} {what}: {figure}", flush=True)
        self.log(f"row {dataclasses.asdict(row)}")

    def compare(self, what: str, value: float, target: float, figure: str, at_most: bool = False, **values):
        """A row for a figure with a target. A fake's figures meet and miss nothing."""
        meets = value <= target if at_most else value >= target
        verdict = "measured" if self.fake else "met" if meets else "missed"
        sign = "at most" if at_most else "at least"
        self.row(what, verdict, figure, f"{sign} {target:g}", value=value, **values)

    def check(self, what: str, function, *arguments):
        """Calls `function`, which adds its rows. That it turns out wrong, impossible here or too long
        becomes a row called `what`, and the stage goes on."""
        if self.remaining() < 1:
            self.row(what, "not run", "the stage's time was up")
            return
        try:
            function(*arguments)
        except NotHere as reason:
            self.row(what, "not run", str(reason))
        except Failure as failure:
            self.row(what, "failed", str(failure))
        except Exception as error:  # one check must not end the others
            self.log(traceback.format_exc())
            self.row(what, "failed", f"gpu-check itself: {type(error).__name__}: {error}")

    # Cinch and the device.

    def library(self, name: str) -> pathlib.Path:
        """A library of the build under test. @raises NotHere"""
        path = self.build / "lib" / ("fakecuda/" if self.fake else "") / name
        if not path.exists():
            raise NotHere(f"this build has no lib/{name}")
        return path

    def binary(self, name: str) -> pathlib.Path:
        path = self.build / "bin" / name
        if not path.exists():
            raise NotHere(f"this build has no bin/{name}")
        return path

    def has_cuda_allocator(self) -> bool:
        return any((self.build / "lib").glob("libcinch_torch_cuda-*.so"))

    def policy_has(self, field: str) -> bool:
        """Whether configs/policy.schema.json has that field at its top level."""
        schema = json.loads((ROOT / "configs/policy.schema.json").read_text())
        return field in schema["properties"]

    def preset(self, name: str) -> dict:
        """A shipped policy's content."""
        return json.loads((ROOT / f"configs/{name}.json").read_text())

    def chosen(self, cases: list[str]) -> list[str]:
        """Those of `cases` that --case names; all without."""
        return [case for case in cases if not self.cases or case in self.cases] or self.cases

    def policy_names(self) -> list[str]:
        schema = json.loads((ROOT / "configs/policy.schema.json").read_text())
        return schema["properties"]["policy"]["enum"]

    def environment(self, policy: str | dict | None = None, fake_memory: int = 4 * GIB) -> dict[str, str]:
        """A child's: plain, or under Cinch when there is a `policy` (a preset's name, or a file's
        content). On the fake, a device of `fake_memory` bytes."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("CINCH_") and k != "LD_PRELOAD"}
        env |= {"PYTHONPATH": f"{HERE}{os.pathsep}{ROOT / 'tests/e2e'}", "PYTHONDONTWRITEBYTECODE": "1", "OMP_WAIT_POLICY": "passive",
                "PYTHONUNBUFFERED": "1", "HF_HUB_OFFLINE": "1"}  # fmt: skip
        if self.tiny:
            env["OMP_NUM_THREADS"] = "1"
        if policy is not None:
            if isinstance(policy, dict):
                with self._lock:
                    self._runs += 1
                    file = self.scratch / f"{self.stage}-{self._runs}.policy.json"
                file.write_text(json.dumps(policy))
                policy = str(file)
            env |= {"LD_PRELOAD": str(self.library("libcinch.so")), "CINCH_POLICY": policy, "CINCH_STRICT": "1",
                    "CINCH_REPORT": str(self.scratch / "report-%p.json")}  # fmt: skip
        if self.fake:
            env = fake_environment(self.build, env, fake_memory)
        return env

    def for_binaries(self) -> dict[str, str]:
        """As environment(), for programs of ours."""
        return program_environment(self.build, self.environment())

    def start(self, command: list, env: dict[str, str], **options) -> subprocess.Popen:
        self.log("start " + " ".join(map(str, command)))
        return subprocess.Popen([str(word) for word in command], env=env, cwd=ROOT, start_new_session=True, **options)

    def run(self, command: list, env: dict[str, str] | None = None, limit: float = 600) -> Done:
        """Runs `command` to its end, or until `limit` seconds or the stage's time are up."""
        env = env or self.for_binaries()
        process = self.start(command, env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        status: int | None
        try:
            stdout, stderr = process.communicate(timeout=max(1.0, min(limit, self.remaining())))
            status = process.returncode
        except subprocess.TimeoutExpired:
            kill(process)
            stdout, stderr = process.communicate()
            status = None
        self.log(f"status {status} of {' '.join(map(str, command))}\n{stdout[-20000:]}\n{stderr[-8000:]}")
        return Done(status, stdout, stderr, read_report(env, process.pid))

    def python(self, program: str, *arguments, policy=None, limit: float = 600, fake_memory: int = 4 * GIB,
               extra: dict[str, str] = {}) -> Done:  # fmt: skip
        """Runs a program of tests/gpu, with `extra` in its environment."""
        flags = ["--fake"] if self.fake else []
        env = self.environment(policy, fake_memory) | extra
        return self.run([sys.executable, "-W", "ignore", HERE / program, *arguments, *flags], env, limit)


def cuda_runtimes() -> list[str]:
    """Folders that may hold libcudart.so.13: torch's packages, the toolkit."""
    import importlib.util

    torch = importlib.util.find_spec("torch")
    folders = [pathlib.Path(torch.origin).parents[1] / "nvidia/cu13/lib"] if torch and torch.origin else []
    return [str(folder) for folder in [*folders, pathlib.Path("/usr/local/cuda/lib64")] if folder.is_dir()]


def program_environment(build: pathlib.Path, env: dict[str, str]) -> dict[str, str]:
    """`env`, where programs of ours find the CUDA runtime and what lies beside our libraries. Not for
    Python: torch has its own."""
    path = [*cuda_runtimes(), str(build / "lib"), env.get("LD_LIBRARY_PATH", "")]
    return env | {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, path))}


def fake_environment(build: pathlib.Path, env: dict[str, str], memory: int) -> dict[str, str]:
    sys.path.insert(0, str(ROOT / "tests/fakecuda"))
    os.environ["CINCH_BUILD_DIR"] = str(build)
    import fakecuda

    if not fakecuda.available():
        raise NotHere("the fake CUDA runtime was not built: this torch has no CUDA")
    return fakecuda.environment(env, memory=memory, unknown_kernels="skip")


def read_report(env: dict[str, str], pid: int) -> dict | None:
    path = pathlib.Path(env.get("CINCH_REPORT", "").replace("%p", str(pid)))
    return json.loads(path.read_text()) if path.is_file() else None


def kill(process: subprocess.Popen):
    """Ends a process that start() started, and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Trainer:
    """A train.py that waits for requests."""

    def __init__(self, ctx: Context, case: str, policy: str | dict | None = None, fake_memory: int = 4 * GIB, flags: list[str] = []):
        self.ctx, self.case = ctx, case
        self.env = ctx.environment(policy, fake_memory)
        flags = flags + ["--tiny"] * ctx.tiny + ["--fake"] * ctx.fake
        self._stderr = (ctx.scratch / f"stderr-{id(self)}.txt").open("w+")
        self.process = ctx.start(
            [sys.executable, "-W", "ignore", HERE / "train.py", case, *flags], self.env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, text=True,
        )  # fmt: skip
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def answer(self, limit: float) -> dict:
        """@raises Failure when the process ended, or the time did; NotHere when it lacks a package"""
        try:
            line = self._answers.get(timeout=max(0.1, min(limit, self.ctx.remaining())))
        except queue.Empty:
            raise Failure(f"no answer in {limit:.0f} s or before the stage's time was up") from None
        if line is None:
            self._stderr.seek(0)
            end = self._stderr.read().strip()
            self.ctx.log(f"{self.case} ended\n{end[-6000:]}")
            raise Failure(f"ended with status {self.process.wait()}: {(end.splitlines() or [''])[-1][:300]}")
        content = json.loads(line)
        self.ctx.log(f"{self.case} {self.process.pid}: {line.strip()[:2000]}")
        if "missing" in content:
            raise NotHere(f"a package is missing here: {content['missing']}")
        if "error" in content:
            raise Failure(content["error"])
        return content

    def ready(self, limit: float = 120):
        self.answer(limit)

    def ask(self, do: str, limit: float = 120, **arguments) -> dict:
        self.send(do, **arguments)
        return self.answer(limit)

    def send(self, do: str, **arguments):
        try:
            self.process.stdin.write(json.dumps({"do": do} | arguments) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # answer() tells why

    def end(self) -> dict:
        """Lets it exit as programs do. @return its last answer, with "report" where there is one"""
        last = self.ask("end", 30)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            raise Failure("did not end within 30 s") from None
        if self.process.returncode != 0:
            raise Failure(f"ended with status {self.process.returncode}")
        return last | {"report": read_report(self.env, self.process.pid)}

    def kill(self):
        kill(self.process)
        self.process.wait()
        self._stderr.close()
