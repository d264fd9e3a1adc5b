# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md explains every reason that a report can give for what was not compressed."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/troubleshooting.md"
RENDER = ROOT / "agent/cli/report/render.cpp"

# Reasons come from the policy's decision, and from the functions of the hooks that give one or count one.
POLICY = ["policy/deciding/need.cpp", "policy/deciding/decide.cpp"]
GIVES_REASONS = re.compile(r"passed_through\(|std::string_view (\w+::)?(encode|carry_out|reason\w*)\(")

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
LITERALS = re.compile(rf"{LITERAL.pattern}(?:\s*{LITERAL.pattern})*")


def literals(text: str) -> list[str]:
    """The string literals of C++; neighbours are one."""
    text = re.sub(r"//[^\n]*", "", text)
    return ["".join(LITERAL.findall(found.group())) for found in LITERALS.finditer(text)]


def reasons() -> set[str]:
    """All reasons in the sources: literals of several words. Error messages begin with "cinch:", and their
    parts with a space or a quote."""
    hooks = [*(ROOT / "hooks/torch").rglob("*.cpp"), *(ROOT / "hooks/torch").rglob("*.h")]
    sources = [ROOT / name for name in POLICY] + [file for file in hooks if GIVES_REASONS.search(file.read_text())]
    texts = {text for file in sources for text in literals(file.read_text())}
    return {text for text in texts if re.match(r"[a-z]+ ", text)}


def section(title: str) -> str:
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.M | re.S).group(1)


def rows() -> dict[str, tuple[str, str]]:
    """The table: what a reason means, and what to do. A cell may name several reasons, one a line."""
    table = re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \|$", section("Not compressed, and why"), re.M)
    return {reason: (meaning, remedy) for cell, meaning, remedy in table[1:] for reason in cell.split("<br>")}


def test_every_reason_is_explained():
    found = reasons()
    assert {"has to be exact", "smaller than min_bytes", "still held by the program itself"} <= found
    missing = found - rows().keys()
    assert not missing, f"no row in {DOCUMENT.name}"
    assert all(meaning and remedy for meaning, remedy in rows().values())


def test_what_is_explained_is_a_reason():
    gone = {reason for reason in rows() if not reason.startswith("---")} - reasons()
    assert not gone, "no source gives these any more"


def test_hints_are_for_reasons():
    table = re.search(r"constexpr Hint hints\[\] = \{(.*?)\n\};", RENDER.read_text(), re.S).group(1)
    hints = re.findall(r'\{"(.*?)",', table)
    assert hints and set(hints) <= reasons()


def test_the_hint_leads_to_the_table():
    anchor = re.search(r"docs/troubleshooting\.md#([\w-]+)", RENDER.read_text()).group(1)
    assert anchor == "not-compressed-and-why" and section("Not compressed, and why")
