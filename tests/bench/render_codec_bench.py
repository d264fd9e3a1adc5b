#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One markdown table from the JSON of codec_bench and torch_chains.py.

    .venv/bin/python tests/bench/render_codec_bench.py codec_bench.json torch_chains.json

Speeds are GB/s of raw data. In brackets: times memcpy of the same bytes by as many threads, taken in
the same rounds. The relative error is ||x - decoded|| / ||x|| (of x > 0 alone, where no more is kept).
"""

import argparse
import json
import re
import sys

NAME = re.compile(r"(?P<data>[^/]+/[^/]+)/(?P<codec>[^/]+)/threads:(?P<threads>\d+)")


def load(file):
    with open(file) as stream:
        return json.load(stream)


def rows_of(reports):
    """{data: {codec: {threads: benchmark}}}, data and codecs in the order of their first report."""
    rows = {}
    for report in reports:
        for benchmark in report["benchmarks"]:
            match = NAME.match(benchmark["name"])
            # Aggregates of --benchmark_repetitions repeat what the last repetition says.
            if match and benchmark.get("run_type") != "aggregate":
                codecs = rows.setdefault(match["data"], {})
                codecs.setdefault(match["codec"], {})[int(match["threads"])] = benchmark
    return rows


def figure(value):
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def speed(benchmark, what):
    return f"{figure(benchmark[what + '_GBps'])} ({benchmark[what + '_vs_memcpy']:.2f})"


def cells(runs, threads):
    """A table row's cells behind data and codec."""
    failed = [run for run in runs.values() if run.get("error_occurred")]
    if failed:
        return ["failed: " + failed[0]["error_message"]] + [""] * (3 * len(threads) + 1)
    row = []
    for count in threads:
        run = runs.get(count)
        row += [figure(run["memcpy_GBps"]), speed(run, "encode"), speed(run, "decode")] if run else [""] * 3
    some = next(iter(runs.values()))
    error = some["relative_error"]
    return row + [f"{some['compression_ratio']:.2f}", f"{error:.2g}" if error else "exact"]


def render(reports):
    rows = rows_of(reports)
    threads = sorted({count for codecs in rows.values() for runs in codecs.values() for count in runs})
    heads = ["data", "codec"]
    for count in threads:
        of = f"{count} thread" + "s" * (count > 1)
        heads += [f"memcpy, {of}", f"encode, {of}", f"decode, {of}"]
    heads += ["ratio", "relative error"]
    yield "| " + " | ".join(heads) + " |"
    yield "|---|---|" + "---:|" * (len(heads) - 2)
    for data, codecs in rows.items():
        for codec, runs in codecs.items():
            yield "| " + " | ".join([data, codec, *cells(runs, threads)]) + " |"


def describe(context):
    """What a report says of the machine and the moment, in a line."""
    parts = [f"{context['num_cpus']} processors", context["processor"], context["date"]]
    parts.append("load average " + ", ".join(f"{load:.1f}" for load in context["load_avg"]))
    return f"{'; '.join(parts)}; {context['megabytes']} MiB a case."


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+", metavar="FILE.json")
    parser.add_argument("--output", metavar="FILE.md", help="instead of standard output")
    options = parser.parse_args()

    reports = [load(file) for file in options.reports]
    lines = [describe(report["context"]) for report in reports if "processor" in report["context"]]
    lines += ["", *render(reports)]
    with open(options.output, "w") if options.output else sys.stdout as stream:
        stream.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
