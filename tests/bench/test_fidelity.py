# SPDX-License-Identifier: Apache-2.0
"""What the fidelity study computes without training anything, and that its models can be trained."""

import argparse
import json
import pathlib
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import child_run  # noqa: E402
import fidelity  # noqa: E402
import pretrained  # noqa: E402
import train_small  # noqa: E402
from fidelity_table import BEGIN, END, MODELS, NUDGED, PLAIN, mean_and_error, number, put, render, with_deviation  # noqa: E402
from kept_runs import KeptRuns, machine  # noqa: E402

ABOUT = {"date": "2026-01-02", "machine": "a machine", "torch": "2.11.0", "threads": 1, "command": "fidelity.py"}
STEPS = MODELS["resnet18"].steps


def made(variant, seed, metric=98.0, loss=0.25, model="resnet18", **more):
    run = {"model": model, "variant": variant, "seed": seed, "steps": MODELS[model].steps, "threads": 1, "date": "2026-01-03"}
    if "error" in more:
        return run | more
    told = {} if variant in (PLAIN, NUDGED) else {"ratio": 10.0, "rest": 12.0, "share": 0.1, "learning": 0.0, "guard_lines": 0}
    return run | {"metric": metric, "loss": loss, "seconds": 10.0} | told | more


@pytest.fixture
def kept(tmp_path):
    return KeptRuns(tmp_path / "deep/fidelity.json", dict(ABOUT))


def rows(text):
    lines = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def table(kept, *variants):
    return rows(render(kept, list(variants)))


def test_numbers():
    assert number(-0.5, 2) == "−0.50" and number(0.5, 2, "+") == "+0.50"
    assert number(-0.0001, 2, "+") == "+0.00"
    assert mean_and_error([1.0, 2.0, 3.0], 3) == "+2.000 ± 0.577"  # deviation 1, of three
    assert mean_and_error([-1.0], 2) == "−1.00"
    assert mean_and_error([0.0, 0.0], 2) == "0"
    assert with_deviation([1.0, 2.0, 3.0], 1, "dB") == "2.0 dB (sd 1.0)"
    assert with_deviation([1.0], 1, "dB") == "1.0 dB"


def test_row_pairs_runs_by_seed(kept):
    for seed, metric in enumerate((98.0, 96.0, 97.0)):
        kept.add(made(PLAIN, seed, metric))
    # In another order, and one of a seed that plain has not got.
    for seed, metric in ((2, 97.5), (0, 97.5), (7, 10.0)):
        kept.add(made("default", seed, metric, loss=0.25 + seed / 1000, ratio=9.0 + seed, learning=0.011))
    (row,) = table(kept, "default")
    assert row == {
        "model": "ResNet-18 / 4", "plain (sd)": "97.00 % (sd 1.00)", "policy": "`default`", "seeds": "2",
        "difference": "+0.00 ± 0.50", "test loss": "+0.0010 ± 0.0010", "ratio": "10.0", "without what is read first": "12.0",
        "time in Cinch": "10.0 % (1.1 % adapting)",
    }  # fmt: skip


def test_rows_are_in_the_order_of_models_and_variants(kept):
    for model, variants in (("gpt", ["comet", "default"]), ("cnn", ["default", "comet"])):
        kept.add(made(PLAIN, 0, 3.0, 3.0, model))
        for variant in variants:
            kept.add(made(variant, 0, 3.0, 3.0, model, ratio=4.0 if model == "gpt" else 9.0))
    kept.add(made(PLAIN, 0, model="cnn", steps=7))
    kept.add(made("default", 0, model="cnn", steps=7, ratio=1.0))
    kept.add(made("default", 0, model="vit"))  # without a plain run
    found = [(row["model"], row["policy"]) for row in table(kept, "default", "comet", "acgc")]
    assert found == [("CNN, 7 steps", "`default`"), ("CNN", "`default`"), ("", "`comet`"), ("GPT", "`default`"), ("", "`comet`")]
    assert [row["difference"] for row in table(kept, "default")] == ["0"] * 3
    text = render(kept, ["default", "comet", "acgc"])
    assert "Geometric means of the ratios (over so many rows): `default` 3.3 (3), `comet` 6.0 (2)." in text


def test_what_is_chance_has_a_row_without_cinchs_figures(kept):
    for seed, metric in enumerate((98.0, 96.0)):
        kept.add(made(PLAIN, seed, metric))
        kept.add(made(NUDGED, seed, metric + seed))
        kept.add(made("default", seed, metric))
    chance, default = table(kept, NUDGED, "default")
    assert (chance["difference"], chance["ratio"], chance["time in Cinch"]) == ("+0.50 ± 0.50", "–", "–")
    assert default["ratio"] == "10.0" and "`default` 10.0 (1)" in render(kept, [NUDGED, "default"])


def test_a_nudge_changes_one_weight_by_one_bit():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    before = [p.detach().clone() for p in model.parameters()]
    train_small.nudge(model)
    changed = [p.view(torch.int32) - old.view(torch.int32) for p, old in zip(model.parameters(), before)]
    assert sum(each.abs().sum().item() for each in changed) == 1


def test_metric_that_is_the_loss_is_told_once(kept):
    kept.add(made(PLAIN, 0, 3.25, 3.25, "lstm"))
    kept.add(made("default", 0, 3.5, 3.5, "lstm"))
    (row,) = table(kept, "default")
    assert (row["plain (sd)"], row["difference"], row["test loss"]) == ("3.2500 bits a byte", "+0.2500", "the same")


def test_notes_say_what_rows_do_not(kept):
    kept.add(made(PLAIN, 0))
    kept.add(made("default", 0, guard_lines=2))
    kept.add(made("default", 1, error="resnet18, default, seed 1: exit status 1\nTraceback"))
    kept.add(made("comet", 0, error="Cinch was not active: why"))
    text = render(kept, ["default", "comet"])
    assert "* ResNet-18 / 4, `default`: 1 of 2 runs failed: resnet18, default, seed 1: exit status 1\n" in text
    assert "* ResNet-18 / 4, `default`: the guard reported 2 times in 2 runs.\n" in text
    assert "* ResNet-18 / 4, `comet`: 1 of 1 runs failed: Cinch was not active: why\n" in text
    assert len(rows(text)) == 1


def test_table_says_when_and_how(kept):
    text = render(kept, [])
    assert "2026-01-02; a machine; torch 2.11.0; one thread a run:\n\n    fidelity.py\n" in text and "Geometric" not in text
    kept.add(made(PLAIN, 0))
    assert render(kept, []).startswith("2026-01-03; ")
    kept.add(made(PLAIN, 1, date="2026-01-05"))
    assert render(kept, []).startswith("2026-01-03 to 2026-01-05; ")


def test_table_is_put_between_the_marks(tmp_path):
    document = tmp_path / "page.md"
    document.write_text(f"# A page\n\n{BEGIN}\n\n| old |\n\n{END}\n\nMore.\n")
    for text in ("| new |\n", "| newer |\n"):
        put(text, document)
        assert document.read_text() == f"# A page\n\n{BEGIN}\n\n{text}\n{END}\n\nMore.\n"
    for bad in ("", BEGIN, f"{END}\n{BEGIN}\n", f"{BEGIN}{BEGIN}{END}"):
        document.write_text(bad)
        with pytest.raises(ValueError, match="page.md"):
            put("| new |\n", document)
        assert document.read_text() == bad


def test_the_page_has_the_marks():
    page = (HERE.parents[1] / "docs/fidelity.md").read_text()
    assert page.count(BEGIN) == page.count(END) == 1 and page.index(BEGIN) < page.index(END)


def study_options(tmp_path, **more):
    (tmp_path / "lib").mkdir(exist_ok=True)
    (tmp_path / "lib/libcinch.so").touch()
    usual = {"build": tmp_path, "model": ["resnet18"], "variant": ["default"], "seeds": 2, "steps": None, "jobs": 1, "minutes": None}
    return argparse.Namespace(**usual | more)


def trained(calls):
    def run(wanted, preload):
        calls.append((wanted["variant"], wanted["seed"]))
        return {"metric": 98.0, "loss": 0.25, "seconds": 10.0, "torch": "2.12.0"}

    return run


@pytest.mark.parametrize("jobs", [1, 3])
def test_runs_are_kept_and_not_made_again(kept, tmp_path, monkeypatch, jobs):
    kept.add(made(PLAIN, 0))
    kept.add(made("default", 0, settings=fidelity.variants()["default"], error="exit status 1"))
    kept.add(made(PLAIN, 1))
    calls = []
    monkeypatch.setattr(fidelity, "run", trained(calls))
    options = study_options(tmp_path, jobs=jobs)
    assert fidelity.study(KeptRuns.load(kept.file), options) == 0
    assert sorted(calls) == [("default", 0), ("default", 1)]
    again = KeptRuns.load(kept.file)
    assert len(again.runs) == 4 and not any("error" in run for run in again.runs) and again.about["torch"] == "2.12.0"
    assert fidelity.study(again, options) == 0 and len(calls) == 2


def test_runs_of_a_preset_that_has_changed_are_made_again(kept, tmp_path, monkeypatch):
    kept.add(made(PLAIN, 0))
    kept.add(made("default", 0, settings=fidelity.variants()["default"] | {"seed": 5}))
    calls = []
    monkeypatch.setattr(fidelity, "run", trained(calls))
    assert fidelity.study(kept, study_options(tmp_path, seeds=1)) == 0
    assert calls == [("default", 0)] and len(kept.runs) == 2


def test_runs_of_a_preset_in_other_words_are_not(kept, tmp_path, monkeypatch):
    said_otherwise = fidelity.variants()["default"] | {"description": "in other words"}
    said_otherwise["rules"] = [rule | {"comment": "likewise"} for rule in said_otherwise["rules"]]
    kept.add(made(PLAIN, 0))
    kept.add(made("default", 0, settings=said_otherwise))
    calls = []
    monkeypatch.setattr(fidelity, "run", trained(calls))
    assert fidelity.study(kept, study_options(tmp_path, seeds=1)) == 0 and not calls


def test_an_interrupted_study_goes_on(kept, tmp_path, monkeypatch):
    calls = []
    run = trained(calls)

    def interrupted(wanted, preload):
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(wanted, preload)

    options = study_options(tmp_path)
    monkeypatch.setattr(fidelity, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fidelity.study(kept, options)
    assert len(KeptRuns.load(kept.file).runs) == 2
    monkeypatch.setattr(fidelity, "run", run)
    assert fidelity.study(KeptRuns.load(kept.file), options) == 0
    # All of a seed before the next seed, and none twice.
    assert calls == [(PLAIN, 0), ("default", 0), (PLAIN, 1), ("default", 1)]


def test_no_run_begins_when_the_minutes_are_over(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(fidelity, "run", trained([]))
    assert fidelity.study(kept, study_options(tmp_path, minutes=0)) == 4 and kept.runs == []


def arguments(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["fidelity.py", *map(str, words)])
    return fidelity.parse_arguments()


def test_a_file_with_runs_is_not_gone_on_with_unasked(kept, monkeypatch, capsys):
    for words in ((), ("--resume",)):
        assert arguments(monkeypatch, "--json", kept.file, *words).json == kept.file
    with pytest.raises(SystemExit):
        arguments(monkeypatch, "--json", kept.file, "--show")
    kept.add(made(PLAIN, 0))
    assert arguments(monkeypatch, "--json", kept.file, "--resume").resume
    with pytest.raises(SystemExit):
        arguments(monkeypatch, "--json", kept.file)
    assert "pass --resume" in capsys.readouterr().err


def test_a_page_without_marks_is_refused_before_any_training(kept, monkeypatch, tmp_path, capsys):
    page = tmp_path / "page.md"
    for text in (None, BEGIN):
        if text is not None:
            page.write_text(text)
        with pytest.raises(SystemExit):
            arguments(monkeypatch, "--json", kept.file, "--write", page)
        assert str(page) in capsys.readouterr().err
    page.write_text(BEGIN + END)
    assert arguments(monkeypatch, "--json", kept.file, "--write", page).write == page


def test_show_writes_the_page_without_training(kept, monkeypatch, tmp_path):
    kept.add(made(PLAIN, 0))
    kept.add(made("default", 0))
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    monkeypatch.setattr(fidelity, "study", None)
    monkeypatch.setattr(sys, "argv", ["fidelity.py", "--show", "--json", str(kept.file), "--write", str(page)])
    assert fidelity.main() == 0
    assert [row["policy"] for row in rows(page.read_text())] == ["`default`"]


def test_a_new_file_says_where_and_when(tmp_path):
    about = KeptRuns.opened(tmp_path / "new.json", "a command", 1).about
    assert about["machine"] == machine() and about["command"] == "a command" and about["threads"] == 1


REPORT = {
    "active": True, "inactive_reason": "", "raw_bytes_at_peak": 1000, "stored_bytes_at_peak": 200, "ratio": 5.0,
    "seconds_in_cinch": 1.0, "seconds_adapting": 0.5,
    "passed_through": [
        {"reason": "read by backward before it was encoded", "bytes": 600},
        {"reason": "read by backward when it was to be encoded", "bytes": 400},
        {"reason": "a parameter", "bytes": 7000},
    ],
}  # fmt: skip


def test_figures_of_a_report():
    told = fidelity.figures({"seconds": 10.0}, REPORT, steps=10)
    assert told == {"ratio": 5.0, "rest": 9.0, "share": 0.1, "learning": 0.05}  # 100 bytes a step are read first
    nothing = REPORT | {"ratio": 0.0, "raw_bytes_at_peak": 0, "stored_bytes_at_peak": 0, "passed_through": []}
    told = fidelity.figures({"seconds": 10.0}, nothing, steps=10)
    assert (told["ratio"], told["rest"]) == (1.0, 1.0)


def ended(stdout, report):
    def run(command, folder, what, preload, policy):
        return argparse.Namespace(stdout=stdout, stderr="cinch: guard: aten::x\nother\n"), report

    return run


def test_a_run_that_cinch_did_not_join_is_an_error(monkeypatch):
    printed = 'cinch: a line\n{"metric": 1.0, "loss": 2.0, "seconds": 10.0, "torch": "2.11.0"}\n'
    plain = {"model": "cnn", "variant": PLAIN, "seed": 0, "steps": 10}
    under = plain | {"variant": "default", "settings": {"policy": "default"}}
    monkeypatch.setattr(child_run, "run", ended(printed, None))
    assert fidelity.run(plain, "") == json.loads(printed.splitlines()[1])
    assert fidelity.run(under, "") == {"error": "Cinch was not active: no report"}
    monkeypatch.setattr(child_run, "run", ended(printed, REPORT | {"active": False, "inactive_reason": "no core"}))
    assert fidelity.run(under, "") == {"error": "Cinch was not active: no core"}
    monkeypatch.setattr(child_run, "run", ended(printed, REPORT))
    told = fidelity.run(under, "")
    assert told["ratio"] == 5.0 and told["metric"] == 1.0 and told["guard_lines"] == 1


def test_a_program_that_fails_is_an_error(monkeypatch):
    def run(*arguments):
        raise child_run.Failed("cnn, default, seed 0: exit status 1\nwhy")

    monkeypatch.setattr(child_run, "run", run)
    assert fidelity.run({"model": "cnn", "variant": PLAIN, "seed": 0, "steps": 10}, "") == {"error": "cnn, default, seed 0: exit status 1\nwhy"}


def test_every_studied_variant_and_model_is_known():
    assert set(fidelity.STUDIED) <= set(fidelity.variants())
    trained = {"train_small.py": train_small.TASKS, "pretrained.py": pretrained.TASKS}
    assert {name: model.program for name, model in MODELS.items()} == {name: file for file, tasks in trained.items() for name in tasks}


@pytest.mark.parametrize("name", train_small.TASKS)
def test_every_model_has_gradients_of_real_data(name):
    torch.manual_seed(0)
    task = train_small.TASKS[name](0)
    loss = task.loss(task.batch())
    loss.backward()
    assert loss.isfinite()
    for parameter in task.model.parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all()


def test_digits_are_tested_at_nine_places():
    image = torch.zeros(1, 1, 32, 32)
    image[0, 0, 10, 20] = 1
    found = {tuple(train_small.moved(image, place)[0, 0].nonzero()[0].tolist()) for place in range(train_small.PLACES)}
    assert found == {(10 + down, 20 + right) for down in (-2, 0, 2) for right in (-2, 0, 2)}
    assert torch.equal(train_small.moved(image, 4), image)


def test_noise_of_a_diffusion_model_keeps_the_variance():
    clean, noise = torch.randn(2, 1, 64, 64), torch.randn(2, 1, 64, 64)
    at = lambda time: train_small.noisy(clean, torch.full((2,), time), noise)  # noqa: E731
    assert torch.equal(at(0.0), clean) and torch.allclose(at(1.0), noise, atol=1e-6)
    assert abs(at(0.3).var() - 1) < 0.05
