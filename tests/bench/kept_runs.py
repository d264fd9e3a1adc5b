# SPDX-License-Identifier: Apache-2.0
"""A study's runs in a file: each is kept as soon as it is made, so that a study that was interrupted can go on."""

import datetime
import hashlib
import json
import os
import pathlib


def machine() -> str:
    names = [line.partition(":")[2].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{len(os.sched_getaffinity(0))} cores of {names[0] if names else os.uname().machine}, {memory:.0f} GiB"


def key(run: dict) -> tuple:
    return run["model"], run["variant"], run["seed"], run["steps"], run["threads"]


def without_words(settings):
    """`settings` without what only people read."""
    if isinstance(settings, dict):
        return {key: without_words(value) for key, value in settings.items() if key not in ("comment", "description")}
    return [without_words(each) for each in settings] if isinstance(settings, list) else settings


def identified(run: dict) -> dict:
    """`run` with a digest in place of its "settings", if it has any: they are only ever compared."""
    if "settings" not in run:
        return run
    written = json.dumps(without_words(run["settings"]), sort_keys=True).encode()
    return run | {"settings": hashlib.sha256(written).hexdigest()[:16]}


class KeptRuns:
    """Runs, kept in `file` as soon as they are added."""

    def __init__(self, file: pathlib.Path, about: dict):
        self.file = file
        self.about = about
        self.runs = []

    @staticmethod
    def load(file: pathlib.Path) -> "KeptRuns":
        content = json.loads(file.read_text())
        kept = KeptRuns(file, content["about"])
        kept.runs = content["runs"]
        return kept

    @staticmethod
    def opened(file: pathlib.Path, command: str, threads: int) -> "KeptRuns":
        """The file's runs, or none yet, of a study that `command` begins now."""
        if file.exists():
            return KeptRuns.load(file)
        about = {"date": str(datetime.date.today()), "machine": machine(), "torch": "?", "threads": threads, "command": command}
        return KeptRuns(file, about)

    def has(self, run: dict) -> bool:
        """Whether a run like `run`, with its "settings" where runs have any, is there and succeeded."""
        settings = identified(run).get("settings")
        return any(key(known) == key(run) and known.get("settings") == settings and "error" not in known for known in self.runs)

    def add(self, run: dict) -> None:
        """Takes the place of a run that failed before, or had other settings. The file is replaced in one step."""
        self.runs = [known for known in self.runs if key(known) != key(run)] + [identified(run)]
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_name(self.file.name + ".new")
        beside.write_text(json.dumps({"about": self.about, "runs": self.runs}, indent=1) + "\n")
        os.replace(beside, self.file)
