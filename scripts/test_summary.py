# SPDX-License-Identifier: Apache-2.0
"""Adds up ctest's JUnit files, shows how what failed ended, names it, and ends with "N passed, N failed".

    python scripts/test_summary.py LEG=JUNIT.xml…

A leg whose file is missing (its build or ctest itself broke) counts as one failure. Exits with 1 when
anything failed or nothing ran.
"""

import sys
import xml.etree.ElementTree as ElementTree


OUTPUT_LINES = 40  # of a failed test: a log that is cut short keeps its end


def outcome(case: ElementTree.Element) -> str:
    """Of a <testcase>: "passed", "failed" or "skipped".

    Only a test that skips itself, or is disabled, counts as skipped: one that ctest could not run (no
    executable, a failed fixture) has failed.
    """
    if case.get("status") == "run" and case.find("failure") is None:
        return "passed"
    skipped = case.find("skipped")
    skipped_itself = skipped is not None and skipped.get("message", "").startswith("SKIP_")
    if skipped_itself or case.get("status") == "disabled":
        return "skipped"
    return "failed"


def last_lines(case: ElementTree.Element) -> str:
    """Of what a <testcase> printed."""
    return "\n".join((case.findtext("system-out") or "").rstrip().splitlines()[-OUTPUT_LINES:])


def add_up(legs: dict[str, str]) -> tuple[dict[str, int], dict[str, str]]:
    """Returns counts by outcome, and the failed tests' last lines by name."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failed = {}
    for leg, path in legs.items():
        try:
            cases = ElementTree.parse(path).getroot().iter("testcase")
        except (OSError, ElementTree.ParseError) as error:
            counts["failed"] += 1
            failed[f"{leg}: no results"] = str(error)
            continue
        for case in cases:
            result = outcome(case)
            counts[result] += 1
            if result == "failed":
                failed[f"{leg}: {case.get('name')}"] = last_lines(case)
    return counts, failed


def main() -> int:
    counts, failed = add_up(dict(argument.split("=", 1) for argument in sys.argv[1:]))
    for name, lines in failed.items():
        print(f"--- {name} ended with\n{lines}")
    for name in failed:
        print(f"failed: {name}")
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
