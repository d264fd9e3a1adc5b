# SPDX-License-Identifier: Apache-2.0
"""Each kernel's share of what one pass over device memory allows, a copy measured in the same run
beside it. And what the device's own counters say, where Nsight Compute may read them."""

import csv
import re
import shutil

from context import Context, Failure, NotHere

ROW = re.compile(
    r"^(?P<case>\S+) +(?P<mib>\d+) +(?P<copy>[\d.]+) +(?P<encode>[\d.]+) +(?P<encode_share>\S+) +(?P<decode>[\d.]+)"
    r" +(?P<decode_share>\S+) +(?P<bits>[\d.]+) +(?P<call_us>[\d.]+)$",
    re.MULTILINE,
)
# Held to the target: 2 bits, at sizes where a launch no longer counts.
JUDGED = tuple(
    f"{case}/{element}"
    for case in ("group_quant/2bit", "division/56x56", "division/112x112", "division/56x56_channels_last", "division/row768")
    for element in ("f32", "bf16")
)
LARGE_MIB, SHARE, CALL_US = 256, 0.85, 6.0
COUNTED = f"ncu's counters at {LARGE_MIB} MiB"


def parsed(text: str) -> list[dict]:
    return [
        {key: value if key == "case" else float(value) for key, value in match.groupdict().items()}
        for match in ROW.finditer(text)
    ]


def judged(ctx: Context):
    sizes = [1] if ctx.tiny else [1, 16, 256, 1024]
    options = [word for size in sizes for word in ("--mib", str(size))] + ["--repeat", "1" if ctx.tiny else "9"]
    options += ["--no-kernels"] * ctx.fake
    done = ctx.run([ctx.binary("codec_cuda_bench"), *options, *JUDGED])
    rows = parsed(done.stdout)
    if done.status != 0 or not rows:
        end = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise Failure(f"exit status {done.status}, {len(rows)} rows: {end}")
    for row in rows:
        if row["case"] in JUDGED and (ctx.tiny or row["mib"] >= LARGE_MIB):
            worst = min(row["encode_share"], row["decode_share"])
            figure = (f"encode {row['encode']:.0f} GB/s, share {row['encode_share']:.2f}; decode {row['decode']:.0f} GB/s,"
                      f" share {row['decode_share']:.2f}; copy {row['copy']:.0f} GB/s")  # fmt: skip
            ctx.compare(f"{row['case']}, {row['mib']:.0f} MiB", worst, SHARE, figure, **row)
    small = [row for row in rows if row["mib"] == 1]
    slowest = max(small, key=lambda row: row["call_us"])
    figure = f"{slowest['call_us']:.1f} us at most ({slowest['case']}, 1 MiB)"
    ctx.compare("host time of an encode call", slowest["call_us"], CALL_US, figure, at_most=True, sizes=rows)


def all_cases(ctx: Context):
    done = ctx.run([ctx.binary("codec_cuda_bench"), "--mib", "64", "--repeat", "5"])
    rows = parsed(done.stdout)
    if not rows:
        raise Failure(f"exit status {done.status}, no rows")
    worst = sorted(rows, key=lambda row: min(row["encode_share"], row["decode_share"]))[:3]
    text = "; ".join(f"{r['case']} {r['encode_share']:.2f}/{r['decode_share']:.2f}" for r in worst)
    whole = {0: "", None: ", until the time was up"}.get(done.status, f", then exit status {done.status}")
    verdict = "measured" if done.status in (0, None) else "failed"
    ctx.row("all cases at 64 MiB", verdict, f"{len(rows)} cases{whole}; lowest shares: {text}", cases=rows)


# Of Nsight Compute: percent of what the device's memory and its multiprocessors sustain, and nanoseconds.
COUNTERS = {
    "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "processors": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "ns": "gpu__time_duration.sum",
}


def counted(text: str) -> dict[str, dict[str, float]]:
    """By kernel: each counter's mean over its launches, of what `ncu --csv --page raw` printed."""
    table = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
    launches = [row for row in table if (row.get("ID") or "").isdigit() and all(row.get(c) for c in COUNTERS.values())]
    of_kernel: dict[str, list] = {}
    for row in launches:
        name = row["Kernel Name"].replace("(anonymous namespace)::", "").split("(")[0]
        of_kernel.setdefault(name, []).append(row)
    return {
        kernel: {name: sum(float(row[counter].replace(",", "")) for row in rows) / len(rows) for name, counter in COUNTERS.items()}
        for kernel, rows in of_kernel.items()
    }


def counters(ctx: Context):
    if ctx.fake:
        raise NotHere("Nsight Compute (ncu) needs a GPU")
    ncu = shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")
    if ncu is None:
        raise NotHere("no Nsight Compute (ncu) on this machine")
    bench = [ctx.binary("codec_cuda_bench"), "--mib", str(LARGE_MIB), "--repeat", "1", *JUDGED]
    options = ["--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(COUNTERS.values())]
    # Each launch is repeated for the counters: of the stage's time, half of what is left.
    done = ctx.run([ncu, *options, "--kernel-name", "regex:group_quant|division", *bench], limit=ctx.remaining() / 2)
    kernels = counted(done.stdout)
    if not kernels:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "==ERROR==" in line or "==WARNING==" in line]
        raise NotHere(f"ncu read no counters: {(said or [f'exit status {done.status}'])[0]}")
    lowest = sorted(kernels.items(), key=lambda each: max(each[1]["memory"], each[1]["processors"]))[:3]
    text = "; ".join(f"{name} {of['memory']:.0f}/{of['processors']:.0f} %" for name, of in lowest)
    figure = f"{len(kernels)} kernels; lowest memory/processors: {text}"
    ctx.row(COUNTED, "measured", figure, kernels=kernels)


def run(ctx: Context):
    ctx.check("kernels' share of a copy's bandwidth", judged, ctx)
    if not ctx.tiny:
        ctx.check("all cases at 64 MiB", all_cases, ctx)
    ctx.check(COUNTED, counters, ctx)
