# SPDX-License-Identifier: Apache-2.0
"""The host allocator by itself (policy "off" with allocator.host): the same bits as plain PyTorch in
every kind of program, memory that is ours, and nothing of it where the policy does not ask for it."""

import json
import sys

import pytest

import harness

OFF_WITH_HOST = {"version": 1, "policy": "off", "allocator": {"host": True}}

QUERY = """
import ctypes, json, os
def figures():
    core = os.environ.get("E2E_CORE")
    if core is None:
        return None
    query = ctypes.CDLL(core).cinch_host_allocator_json
    query.argtypes, query.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_size_t
    buffer = ctypes.create_string_buffer(1024)
    query(buffer, 1024)
    return json.loads(buffer.value)
"""

TRAINING = (
    QUERY
    + """
import torch
from torch import nn
from workloads.models import ConvNet
torch.manual_seed(0)
model, images = ConvNet(), torch.randn(64, 3, 64, 64)
optimizer = torch.optim.AdamW(model.parameters())
losses = []
for _ in range(4):
    loss = model(images).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
print(json.dumps({"losses": losses, "figures": figures()}))
"""
)

MANNERS = (
    QUERY
    + """
import gc, io, multiprocessing, pickle, threading
import numpy, torch
big = 4 * 2**20
result = {}
t = torch.arange(big, dtype=torch.float32)
result["aligned"] = t.data_ptr() % 64 == 0
result["numpy"] = float(torch.from_numpy(t.numpy()).sum())
result["resize"] = float(t.clone().resize_(2 * big)[:big].sum())
shared = t.clone().share_memory_()
result["shared"] = float(shared.sum())
buffer = io.BytesIO()
torch.save(t, buffer)
buffer.seek(0)
result["saved"] = float(torch.load(buffer).sum())
result["pickled"] = float(pickle.loads(pickle.dumps(t)).sum())
result["emptied"] = t.clone().untyped_storage().resize_(0).nbytes()

def work(out):
    for i in range(30):
        a = torch.full((2**19 + i * 1000,), float(i))
        out.append(float(a.mean()))
outs = [[] for _ in range(4)]
threads = [threading.Thread(target=work, args=(out,)) for out in outs]
for thread in threads: thread.start()
for thread in threads: thread.join()
result["threads"] = outs

def child(pipe):
    torch.set_num_threads(1)  # the parent's OpenMP threads are not here
    x = torch.ones(big)
    pipe.send(float((x + x).sum()))
context = multiprocessing.get_context("fork")
stop = threading.Event()
def churn():
    while not stop.is_set():
        torch.empty(2**20).fill_(1)
churner = threading.Thread(target=churn)
churner.start()
answers = []
for _ in range(4):
    ours, theirs = context.Pipe()
    process = context.Process(target=child, args=(theirs,))
    process.start()
    answers.append(ours.recv() if ours.poll(20) else None)
    process.join(20)
    answers.append(process.exitcode)
stop.set()
churner.join()
result["forks"] = answers
try:
    torch.empty(2**50)
    result["impossible"] = "allocated"
except RuntimeError as error:
    result["impossible"] = "can't allocate memory" in str(error)
del t, shared
gc.collect()
print(json.dumps({"result": result, "figures": figures()}))
"""
)


def run(program, folder, policy):
    """Runs `program`; with a policy under a bare preload, which the policy "off" leaves inactive."""
    env = harness.plain_environment(None if policy is None else harness.preload_environment(folder, policy))
    done = harness.run([sys.executable, "-c", program], env)
    assert done.status == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    return {name: run(TRAINING, folder, policy) for name, policy in
            {"plain": None, "ours": OFF_WITH_HOST, "off": "off",
             "disabled": {"version": 1, "policy": "division", "allocator": {"enabled": False}}}.items()}


@pytest.mark.quick
def test_losses_are_plains_bit_for_bit(training):
    plain, ours = training["plain"][0], training["ours"][0]
    assert ours["losses"] == plain["losses"]
    assert ours["figures"]["peak_allocated"] > 50 * 2**20, "activations did not come from us"


@pytest.mark.quick
def test_memory_is_used_again(training):
    figures = training["ours"][0]["figures"]
    assert figures["peak_reserved"] <= 1.1 * figures["peak_allocated"] + 4 * 2**20
    assert figures["misses"] < figures["allocations"] / 2
    assert figures["failures"] == 0


@pytest.mark.quick
def test_silent(training):
    assert harness.new_lines(training["ours"][1], training["plain"][1]) == []


@pytest.mark.parametrize("name", ["off", "disabled"])
def test_not_there_unless_asked_for(training, name):
    assert training[name][0]["figures"] is None


@pytest.fixture(scope="module")
def manners(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manners")
    return run(MANNERS, folder, None)[0], run(MANNERS, folder, OFF_WITH_HOST)[0]


def test_everything_a_program_may_do_gives_the_same(manners):
    """NumPy, resizing, shared memory, saving, threads, forks while another thread allocates, and
    a request that no machine can serve."""
    plain, ours = manners
    assert ours["result"] == plain["result"]
    assert ours["result"]["impossible"] is True
    assert ours["result"]["forks"] == [2.0 * 4 * 2**20, 0] * 4


def test_everything_is_given_back(manners):
    assert manners[1]["figures"]["used_blocks"] == 0
    assert manners[1]["figures"]["allocated"] == 0
