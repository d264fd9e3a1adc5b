# SPDX-License-Identifier: Apache-2.0
"""What a run's report tells of modules and of time, and the page made of it, in a real browser."""

import html.parser
import json
import re

import pytest

import browser
import harness

TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
    def forward(self, x):
        return torch.relu(x + self.norm(self.conv(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.blocks, self.head = nn.Conv2d(3, 8, 3), nn.ModuleList([Block(), Block()]), nn.Linear(8, 4)
        self.touched = 0
    def __getattribute__(self, name):
        if name == "_modules": object.__setattr__(self, "touched", self.__dict__["touched"] + 1)
        return super().__getattribute__(name)
    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks: x = block(x)
        return self.head(nn.functional.gelu(x.mean((2, 3))))
model = nn.DataParallel(Net()) if WRAP else Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 3, 32, 32)).square().mean().backward()
    optimizer.step()
"""


def trained(folder, wrap: bool, policy=None) -> dict:
    policy = policy or {"version": 1, "policy": "division", "min_bytes": 0, "guard": {"every_steps": 2}}
    return harness.run_python(["-c", TRAINING.replace("WRAP", str(wrap))], folder, policy).report


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("report"), wrap=False)


def modules(report: dict) -> set[tuple]:
    return {(e["op"].removeprefix("aten::"), e["relation"], e["module"]) for e in report["entries"]}


class TestNames:
    def test_are_those_of_the_module_tree(self, report):
        found = modules(report)
        assert ("convolution", "own", "blocks.0.conv") in found
        assert ("convolution", "own", "blocks.1.conv") in found
        assert ("native_batch_norm", "own", "blocks.1.norm") in found

    def test_of_operators_without_parameters_say_what_they_come_after(self, report):
        """The GELU reads what the last block made: a mean of its ReLU's result."""
        assert ("gelu", "after", "blocks.1.norm") in modules(report)

    def test_leave_a_wrapper_out(self, report, tmp_path):
        assert modules(trained(tmp_path, wrap=True)) == modules(report)


class TestSeries:
    def test_memory_reaches_the_peak_and_ends_at_nothing(self, report):
        points = report["memory"]
        assert 2 <= len(points) <= 2048
        assert max(p["raw_bytes"] for p in points) >= report["raw_bytes_at_peak"] * 0.5
        assert all(p["least_raw_bytes"] <= p["raw_bytes"] for p in points)
        seconds = [p["seconds"] for p in points]
        assert seconds == sorted(seconds) and seconds[-1] <= report["seconds"]
        assert points[-1]["least_raw_bytes"] == report["stash_bytes_at_exit"] == 0
        assert {p["step"] for p in points} >= {0, 1, 2, 3}

    def test_entries_add_up_to_the_operators(self, report):
        for key in ("count", "raw_bytes", "stored_bytes"):
            assert sum(e[key] for e in report["entries"]) == sum(o[key] for o in report["ops"]), key

    def test_long_runs_stay_bounded(self, tmp_path):
        program = (
            "import torch\nw = torch.randn(64, 64, requires_grad=True)\n"
            "for _ in range(4000): (w * torch.randn(64, 64)).exp().sum().backward()"
        )
        long = harness.run_python(["-c", program], tmp_path, harness.LOSSLESS).report
        assert 1024 <= len(long["memory"]) <= 2048

    def test_a_choice_of_an_adaptive_policy_is_an_event(self, tmp_path):
        policy = {"version": 1, "policy": "actnn", "min_bytes": 0, "actnn": {"bits": 2, "every_steps": 1}}
        report = trained(tmp_path, wrap=False, policy=policy)
        for event in report["events"]:
            assert event["kind"] in ("choice", "guard") and event["subject"] and event["detail"]
        assert any(event["kind"] == "choice" for event in report["events"])

    def test_a_guard_event_is_one_too(self, tmp_path):
        policy = {
            "version": 1,
            "policy": "division",
            "min_bytes": 0,
            "guard": {"every_steps": 1, "max_relative_error": 1e-6},
        }
        report = trained(tmp_path, wrap=False, policy=policy)
        assert any(e["kind"] == "guard" and "limit 1e-06" in e["detail"] for e in report["events"])


def many_entries(report: dict, count: int) -> dict:
    entries = [
        e | {"module": f"layers.{i // 8}.{e['module']}", "place": i, "raw_bytes": 1000 * i, "guard_checks": i % 3}
        for i in range(count)
        for e in [report["entries"][i % len(report["entries"])]]
    ]
    return report | {"entries": entries, "command": "python </script><b>not markup</b> & train.py"}


class Page(html.parser.HTMLParser):
    """Whether a page would ask for anything from outside."""

    def __init__(self, text: str):
        super().__init__()
        self.outside = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.outside += [v for k, v in attributes if k in ("src", "href") and not v.startswith(("#", "data:"))]


@pytest.fixture(scope="module")
def page(report, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "r.json").write_text(json.dumps(many_entries(report, 10_000)))
    done = harness.run(
        [harness.CINCH, "report", folder / "r.json", "--html", folder / "r.html"], harness.plain_environment()
    )
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
    return folder / "r.html"


class TestPage:
    def test_needs_nothing_from_outside(self, page):
        text = page.read_text()
        assert Page(text).outside == []
        assert not re.search(r"\b(fetch|XMLHttpRequest|import)\s*\(", text) and "default-src 'none'" in text

    @browser.needed
    def test_opens_in_a_browser(self, page):
        """All parts are drawn, 10,000 rows cost no more elements than are seen, and the console stays silent."""
        probe = page.with_name("probe.html")
        check = """<script>
          const rows = document.querySelectorAll("#entries tbody tr").length;
          const header = [...document.querySelectorAll("#entries th button")].find((b) => b.textContent === "Operator");
          header.focus(); header.click();
          const sorted = header.parentNode.getAttribute("aria-sort");
          const input = document.querySelector("#entries input");
          input.value = "batch_norm"; input.dispatchEvent(new Event("input"));
          const svg = document.querySelector("#memory svg");
          svg.dispatchEvent(new KeyboardEvent("keydown", {key: "Home"}));
          const tip = document.getElementById("tip").textContent;
          document.getElementById("theme").click();
          document.body.dataset.seen = JSON.stringify({rows, sorted, filtered: document.querySelector("#entries .note").textContent,
            lines: document.querySelectorAll("#memory path").length, bars: document.querySelectorAll("#modules .bars li").length,
            dots: document.querySelectorAll("#errors circle").length, theme: document.documentElement.dataset.theme, tip,
            command: document.querySelector("main code").textContent, wide: document.documentElement.scrollWidth,
            milliseconds: performance.now()});
        </script></body>"""
        probe.write_text(page.read_text().replace("</body>", check))
        done = browser.browse(probe.as_uri(), "--dump-dom", "--window-size=390,800")
        assert "CONSOLE" not in done.stderr, done.stderr
        seen = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', done.stdout).group(1)))
        print("loaded and drawn after", seen["milliseconds"], "ms")
        assert 10 < seen["rows"] < 200
        assert seen["sorted"] == "ascending" and seen["theme"] == "dark"
        assert re.fullmatch(r"\d+ of 10000", seen["filtered"]) and not seen["filtered"].startswith("10000 ")
        assert seen["lines"] >= 4 and seen["bars"] > 1 and seen["dots"] > 100
        assert "stored" in seen["tip"]
        assert seen["command"] == "python </script><b>not markup</b> & train.py"
        assert seen["wide"] <= 500, "wider than a phone"

    @browser.needed
    def test_tells_of_gpus_and_of_what_was_moved(self, report, tmp_path):
        device = {"index": 1, "allocator": "Cinch", "peak_allocated_bytes": 3 << 30, "peak_reserved_bytes": 4 << 30,
                  "stash_bytes_at_most": 1 << 30}  # fmt: skip
        moved = {"offloads": 60, "offloaded_bytes": 5 << 30, "offloaded_bytes_at_peak": 2 << 30, "fetches": 60,
                 "fetches_ahead": 57, "rescues": 2, "given_by_others_bytes": 7 << 20}  # fmt: skip
        for name, extra in {"gpu": moved | {"devices": [device]}, "cpu": {"devices": []}}.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(report | extra))
            arguments = ["report", tmp_path / f"{name}.json", "--html", tmp_path / f"{name}.html"]
            assert harness.run([harness.CINCH, *arguments], harness.plain_environment()).status == 0
        shown = browser.browse((tmp_path / "gpu.html").as_uri(), "--dump-dom", "--window-size=390,800")
        assert "CONSOLE" not in shown.stderr, shown.stderr
        for words in ("cuda:1", "3.0 GiB", "At the peak 2.0 GiB more", "57 were made before", "ran out 2 times", "gave back 7.0 MiB"):
            assert words in shown.stdout, words
        plain = browser.browse((tmp_path / "cpu.html").as_uri(), "--dump-dom")
        assert 'id="devices"' not in plain.stdout

    @browser.needed
    def test_of_an_older_report_says_what_it_lacks(self, tmp_path):
        (tmp_path / "old.json").write_text('{"version": 1, "active": true, "policy": "division", "ratio": 3}')
        done = harness.run(
            [harness.CINCH, "report", tmp_path / "old.json", "--html", tmp_path / "old.html"],
            harness.plain_environment(),
        )
        assert done.status == 0
        shown = browser.browse((tmp_path / "old.html").as_uri(), "--dump-dom")
        assert "CONSOLE" not in shown.stderr
        assert "of an older Cinch" in shown.stdout


