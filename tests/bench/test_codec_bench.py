# SPDX-License-Identifier: Apache-2.0
"""The codec benchmark on little data: that it runs, and that what it says of the codecs is so."""

import json
import math
import os
import pathlib
import subprocess
import sys

import numpy
import pytest

HERE = pathlib.Path(__file__).resolve().parent
CODEC_BENCH = pathlib.Path(os.environ["CINCH_BUILD_DIR"]) / "bin" / "codec_bench"


def run(*command):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def codec_bench(folder, *options):
    """{(data, contender, threads): benchmark} of one run."""
    file = folder / "codec_bench.json"
    run(CODEC_BENCH, "--megabytes=1", "--seconds=0.001", f"--benchmark_out={file}", *options)
    rows = {}
    for benchmark in json.loads(file.read_text())["benchmarks"]:
        collection, data, contender, threads = benchmark["name"].split("/")[:4]
        rows[f"{collection}/{data}", contender, int(threads.removeprefix("threads:"))] = benchmark
    return rows


@pytest.fixture(scope="module")
def random_rows(tmp_path_factory):
    return codec_bench(tmp_path_factory.mktemp("random"), "--benchmark_filter=^random/")


@pytest.fixture(scope="module")
def activations(tmp_path_factory):
    folder = tmp_path_factory.mktemp("activations")
    run(sys.executable, HERE / "dump_activations.py", "--output", folder, "--steps=1", "--batch=2", "--context=64")
    return folder


def read(folder, name):
    """An entry of the index and its tensor; bfloat16 as float32."""
    entry = next(e for e in json.loads((folder / "index.json").read_text())["tensors"] if e["name"] == name)
    numpy_type = {"bfloat16": "<u2", "bool": "?"}.get(entry["type"], entry["type"])
    values = numpy.fromfile(folder / entry["file"], dtype=numpy_type).reshape(entry["shape"])
    if entry["type"] == "bfloat16":
        values = (values.astype("<u4") << 16).view("<f4")
    return entry, values


def test_every_row_has_its_figures(random_rows):
    assert random_rows
    for name, row in random_rows.items():
        for counter in ("memcpy_GBps", "encode_GBps", "decode_GBps", "encode_vs_memcpy", "decode_vs_memcpy"):
            assert math.isfinite(row[counter]) and row[counter] > 0, (name, counter)
        assert row["encode_vs_memcpy"] == pytest.approx(row["encode_GBps"] / row["memcpy_GBps"])
        assert row["rounds"] >= 3, name
        assert 0 < row["raw_bytes"] < 1 << 22, name


def test_number_of_threads_changes_no_byte(random_rows):
    assert {threads for *_, threads in random_rows} == {1, 2}
    for (data, contender, threads), row in random_rows.items():
        other = random_rows[data, contender, 3 - threads]
        for counter in ("compression_ratio", "relative_error", "max_error"):
            assert row[counter] == other[counter], (data, contender, counter)


def test_ratios_and_errors_are_those_of_the_codecs(random_rows):
    def row(data, contender):
        return random_rows[f"random/{data}", contender, 1]

    assert row("f32_56x56", "raw")["compression_ratio"] == 1
    # DIVISION, section 4.1: 2 bits, a bfloat16 mean for each 8x8 block, 32 bits a plane.
    assert row("f32_56x56", "division_b2")["compression_ratio"] == pytest.approx(32 / (2 + (16 * 49 + 32) / 3136))
    assert row("f32_row4096", "sign")["compression_ratio"] == 32
    assert row("bool_dropout_row4096", "two_valued")["compression_ratio"] == pytest.approx(8, rel=1e-3)
    for data, contender in (
        ("f32_56x56", "raw"),
        ("f32_row4096", "sign"),
        ("bf16_row4096", "sign"),
        ("f32_dropout_row4096", "two_valued"),
        ("int64_pool_56x56", "window_index"),
    ):
        assert row(data, contender)["relative_error"] == 0, (data, contender)
    errors = [row("f32_56x56", f"division_b{bits}")["relative_error"] for bits in (2, 4, 8)]
    # A step is range / (2^bits - 1), and the error is in proportion to it.
    assert errors[0] / errors[1] == pytest.approx(15 / 3, rel=0.05)
    assert errors[1] / errors[2] == pytest.approx(255 / 15, rel=0.05)


def test_opponents_keep_their_promises(random_rows):
    opponents = [(name, row) for name, row in random_rows.items() if name[1].startswith(("zfp", "zstd", "lz4"))]
    for (data, contender, _), row in opponents:
        if contender.startswith("zfp_accuracy"):
            assert 0 < row["max_error"] <= row["error_bound"], data
        elif contender.startswith("zfp_rate"):
            bits = int(contender.removeprefix("zfp_rate_b"))
            assert row["compression_ratio"] == pytest.approx(32 / bits, rel=0.01), data
        else:
            assert row["relative_error"] == 0, (data, contender)


def test_saved_tensors_are_what_their_names_say(activations):
    index = json.loads((activations / "index.json").read_text())["tensors"]
    for entry in index:
        layout = entry["layout"]
        elements = layout["outer"] * layout["inner"] * math.prod(layout["extent"])
        assert elements == math.prod(entry["shape"]), entry["name"]
        size = {"float32": 4, "bfloat16": 2, "bool": 1, "int64": 8}[entry["type"]]
        assert (activations / entry["file"]).stat().st_size == elements * size, entry["name"]

    entry, relu = read(activations, "relu_output_64x64")
    assert entry["layout"]["extent"] == [1, 64, 64] and entry["layout"]["inner"] == 32
    assert relu.min() == 0 and 0.1 < (relu > 0).mean() < 0.9
    assert read(activations, "batch_norm_input_32x32")[1].min() < 0
    entry, indices = read(activations, "pool_index_32x32")
    height, width = entry["index_extent"][1:]
    window = indices // width // 2 * 32 + indices % width // 2
    assert indices.max() < height * width
    assert (window == numpy.arange(32 * 32).reshape(32, 32)).all()
    _, softmax = read(activations, "softmax_output_64")
    assert softmax.sum(-1) == pytest.approx(1, abs=1e-5)
    _, normalized = read(activations, "linear_input_256")
    assert normalized.mean(-1) == pytest.approx(0, abs=1e-4)
    noise = read(activations, "dropout_noise_256")[1]
    assert set(numpy.unique(noise)) == {numpy.float32(0), numpy.float32(1 / 0.9)}
    assert read(activations, "dropout_mask_64")[1].mean() == pytest.approx(0.9, abs=0.02)
    # The same quantity from two forwards on other batches: only their statistics agree.
    half, full = (read(activations, f"gelu_input_1024{suffix}")[1].std() for suffix in ("_bf16", ""))
    assert half == pytest.approx(full, rel=0.1)


def test_benchmark_reads_saved_tensors(activations, tmp_path):
    rows = codec_bench(
        tmp_path,
        f"--activations={activations}",
        "--benchmark_filter=^activation/.*/(division_b2|division_sign_b2|sign|two_valued|window_index)/threads:1/",
    )
    for data, contender in (
        ("relu_output_64x64", "sign"),
        ("dropout_mask_64", "two_valued"),
        ("pool_index_32x32", "window_index"),
    ):
        assert rows[f"activation/{data}", contender, 1]["relative_error"] == 0
    assert 0 < rows["activation/batch_norm_input_32x32", "division_b2", 1]["relative_error"] < 1
    # Tensors below a megabyte are repeated until they fill it.
    assert all(1 << 20 <= row["raw_bytes"] < 1 << 22 for row in rows.values())


def test_one_table_shows_codecs_and_torch_chains(random_rows, tmp_path):
    chains = tmp_path / "chains.json"
    run(sys.executable, HERE / "torch_chains.py", "--megabytes=1", "--seconds=0.001", "--json", chains)
    chain_rows = json.loads(chains.read_text())["benchmarks"]
    names = {tuple(row["name"].split("/")[1:3]) for row in chain_rows}
    # Nothing of ours would stand beside a chain on data that codec_bench doesn't know.
    assert {data for data, _ in names} <= {data.removeprefix("random/") for data, *_ in random_rows}
    errors = {row["name"]: row["relative_error"] for row in chain_rows}
    for data in ("f32_28x28", "f32_row768"):
        ours = random_rows[f"random/{data}", "division_b2", 1]["relative_error"]
        assert errors[f"random/{data}/torch_division_b2/threads:1"] == pytest.approx(ours, rel=0.1)

    codecs = tmp_path / "codec_bench.json"
    codec_bench(tmp_path, "--benchmark_filter=^random/f32_28x28/division")
    table = run(sys.executable, HERE / "render_codec_bench.py", codecs, chains).splitlines()
    assert len({line.count("|") for line in table if line.startswith("|")}) == 1
    order = [line.split(" | ")[1] for line in table if line.startswith("| random/f32_28x28 |")]
    assert order == ["division_b2", "torch_actnn_b2", "torch_division_b2"]
