# SPDX-License-Identifier: Apache-2.0
"""Double precision and complex numbers: held by the codecs that hold floats, with losses close to plain training's
under the default preset, and with the same bits under lossless."""

import json

import pytest

import harness

HEAD = """
import json, torch
from torch import nn
torch.manual_seed(0)
torch.set_default_dtype(torch.DTYPE)
"""

# Trains `model` on `x` and `y`.
TAIL = """
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
losses = []
for step in range(60):
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
real = lambda p: torch.view_as_real(p) if p.is_complex() else p
print(json.dumps({"losses": losses, "parameters": [real(p).sum().item() for p in model.parameters()]}))
"""

DOUBLES = """
model = nn.Sequential(
    nn.Linear(16, 128), nn.GELU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1)
)
x = torch.randn(512, 16)
y = (x[:, :4].sum(1, keepdim=True)).sin() + 0.3 * x[:, 4:5] * x[:, 5:6]
"""

# Spectra times complex weights, as in a Fourier neural operator, and a product with a lazy conjugate.
SPECTRA = """
class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes) / width + 0j)
        self.gain = nn.Parameter(torch.ones(width, modes) + 0j)

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        low = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], self.weight)
        low = low + 0.1 * self.gain * low.conj() * (low * 0.5)
        out = torch.zeros_like(spectrum)
        out[..., : self.modes] = low
        return torch.fft.irfft(out, n=x.shape[-1])

model = nn.Sequential(nn.Conv1d(1, 16, 1), Spectral(16, 12), nn.Tanh(), Spectral(16, 12), nn.Conv1d(16, 1, 1))
x = torch.randn(32, 1, 128).cumsum(-1) / 8
y = x.roll(5, -1).tanh()
"""


def program(body: str, dtype: str, rate: str) -> str:
    return HEAD.replace("DTYPE", dtype) + body + TAIL.replace("LR", rate)


PROGRAMS = {
    "float64": program(DOUBLES, "float64", "2e-3"),
    "complex64": program(SPECTRA, "float32", "3e-3"),
    "complex128": program(SPECTRA, "float64", "3e-3"),
}

DEFAULT = {"version": 1, "policy": "default", "raw_window": 0}


@pytest.fixture(scope="module", params=PROGRAMS)
def plain(request, tmp_path_factory):
    return request.param, harness.run_python(["-c", PROGRAMS[request.param]], tmp_path_factory.mktemp(request.param))


def codecs_of(run, op):
    return {row["codec"] for row in run.report["ops"] if row["op"] == op and row["stored_bytes"] > 0}


def reasons(run):
    return {entry["reason"] for entry in run.report["passed_through"]}


def test_the_default_ends_close(plain, tmp_path):
    name, expected = plain
    run = harness.run_python(["-c", PROGRAMS[name]], tmp_path, DEFAULT)
    assert harness.new_lines(run.stderr, expected.stderr) == []
    plainly, found = json.loads(expected.stdout)["losses"], json.loads(run.stdout)["losses"]
    assert found[0] == plainly[0], "forward was touched"
    assert plainly[-1] < 0.5 * plainly[0]
    assert found != plainly, "nothing was approximated"
    # The loss falls a hundredfold, and single steps of Adam scatter by a third.
    assert sum(found[-10:]) < 1.5 * sum(plainly[-10:])
    assert "element type without a codec" not in reasons(run)
    if name == "float64":
        assert "group_quant 6-bit dithered" in codecs_of(run, "aten::addmm")
        assert "group_quant 6-bit dithered" in codecs_of(run, "aten::gelu")
        assert "group_quant 8-bit dithered" in codecs_of(run, "aten::tanh")
        assert any("sign" in codec for codec in codecs_of(run, "aten::addmm") | codecs_of(run, "aten::relu"))
        assert run.report["ratio"] > 6
    else:
        bits = 4 if name == "complex64" else 8
        assert f"group_quant {bits}-bit dithered" in codecs_of(run, "aten::bmm")
        assert f"group_quant {bits}-bit" in codecs_of(run, "aten::mul")
        assert run.report["ratio"] > 3


def test_lossless_has_the_same_bits(plain, tmp_path):
    name, expected = plain
    run = harness.run_python(["-c", PROGRAMS[name]], tmp_path, harness.LOSSLESS)
    assert harness.new_lines(run.stderr, expected.stderr) == []
    assert run.stdout == expected.stdout
    assert "element type without a codec" not in reasons(run)
    assert "exponent_pack" in codecs_of(run, "aten::addmm" if name == "float64" else "aten::bmm")


# What a node saved, looked at by the program itself: NaNs with every payload, and lazy conjugates.
SAVED = """
import hashlib, torch
torch.manual_seed(0)
w = torch.randn(64, 64, dtype=torch.DTYPE, requires_grad=True)
for step in range(4):
    nodes = []
    for conjugate in (False, True):
        z = torch.randn(64, 64, dtype=torch.DTYPE) * 0.5
        parts = torch.view_as_real(z).view(torch.INT)
        parts.flatten()[::50] = torch.arange(len(parts.flatten()[::50])).to(torch.INT) + QUIET
        parts.flatten()[7::50] = torch.arange(len(parts.flatten()[7::50])).to(torch.INT) + SIGNALING
        nodes.append(((z.conj() if conjugate else z) * w).grad_fn)
        del z, parts
    for _ in range(3):  # later saves give Cinch the moment at which to encode
        (w.abs() * 0.5).exp()
    for node in nodes:
        saved = node._saved_self
        data = torch.view_as_real(saved.conj() if saved.is_conj() else saved)
        print(saved.dtype, saved.is_conj(), hashlib.sha256(data.numpy().tobytes()).hexdigest())
"""


@pytest.mark.parametrize(
    "dtype, integers, quiet, signaling",
    [("complex64", "int32", 0x7FC00000, 0x7F800001), ("complex128", "int64", 0x7FF8 << 48, (0x7FF0 << 48) + 1)],
)
def test_payloads_and_conjugates_come_back(dtype, integers, quiet, signaling, tmp_path):
    program = SAVED.replace("DTYPE", dtype).replace("INT", integers)
    program = program.replace("QUIET", str(quiet)).replace("SIGNALING", str(signaling))
    expected = harness.run_python(["-c", program], tmp_path)
    assert f"torch.{dtype} False" in expected.stdout and f"torch.{dtype} True" in expected.stdout
    run = harness.run_python(["-c", program], tmp_path, harness.LOSSLESS)
    assert run.stdout == expected.stdout
    held = [row for row in run.report["ops"] if row["codec"].startswith("exponent_pack") and row["op"] == "aten::mul"]
    assert sum(row["stored_bytes"] for row in held) > 0
