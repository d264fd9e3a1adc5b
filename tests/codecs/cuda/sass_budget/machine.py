# SPDX-License-Identifier: Apache-2.0
"""Runs machine code of sm_90 kernels, a block of threads at a time, and counts what is issued.

Threads of a warp that diverge run one group after the other until they meet again, as the convergence
barriers in the code say. Blocks run one after another. What an instruction does is in alu.py and access.py.
"""

import numpy as np

import access
import alu
from disassembly import PARAMETERS_AT
from memory import SHARED_AT, WARP, Bytes, Fault

RUNNING, AT_CONVERGENCE, AT_BARRIER, EXITED, AT_WARPSYNC = range(5)
CONTROL = ("BRA", "EXIT", "CALL", "RET", "BSYNC", "BREAK", "BAR", "WARPSYNC", "BRX", "JMP")


class Program:
    """A kernel whose instructions became functions of (block, threads)."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.index_of = {each.address: i for i, each in enumerate(kernel.instructions)}
        self.control = [each.opcode.split(".")[0] in CONTROL for each in kernel.instructions]
        self.steps = [None] * len(kernel.instructions)

    def step(self, i):
        if self.steps[i] is None:
            each = self.kernel.instructions[i]
            try:
                make = access.make if each.opcode.split(".")[0] in access.OPCODES else alu.make
                self.steps[i] = make(each)
            except (KeyError, ValueError, IndexError) as error:
                raise Fault(f"not understood: {each.opcode} {', '.join(each.operands)} ({error!r})") from error
        return self.steps[i]

    def label(self, operand):
        return self.kernel.labels[operand.strip("`()")]


class Block:
    """The state of one block of threads."""

    def __init__(self, program, launch, index, arena, traffic):
        self.program, self.traffic, self.index = program, traffic, index
        kernel = program.kernel
        self.threads = launch.threads
        padded = (launch.threads + WARP - 1) // WARP * WARP
        self.warps = padded // WARP
        self.warp_of = np.arange(padded) // WARP
        self.R = np.zeros((256, padded), np.uint32)
        self.P = np.zeros((8, padded), bool)
        self.P[7] = True
        self.U = np.zeros((64, self.warps), np.uint32)
        self.UP = np.zeros((8, self.warps), bool)
        self.UP[7] = True
        self.masks = np.zeros((16, padded), np.uint32)  # of convergence barriers
        self.pc = np.zeros(padded, np.int32)
        self.state = np.zeros(padded, np.int8)
        self.state[launch.threads :] = EXITED
        self.waits_for = np.zeros(padded, np.int8)
        shared = kernel.shared_bytes + launch.shared_bytes
        self.shared = Bytes(SHARED_AT, np.full((shared + 15) // 16 * 16, 0xCD, np.uint8))
        self.memory = arena
        self.constants = {bank: np.frombuffer(data, np.uint8) for bank, data in kernel.constants.items()}
        self.constants[0] = self.parameters(launch)
        self.issued = np.zeros(len(kernel.instructions), np.int64)

    def parameters(self, launch):
        bank = np.zeros(PARAMETERS_AT + 4096 + 64, np.uint8)
        bank[0:12].view(np.uint32)[:] = (launch.threads, 1, 1)
        bank[12:24].view(np.uint32)[:] = (launch.blocks, 1, 1)
        for offset, value in zip(self.program.kernel.parameter_offsets, launch.arguments):
            bank[PARAMETERS_AT + offset :][: len(value)] = np.frombuffer(value, np.uint8)
        return bank

    def run(self):
        while True:
            running = np.nonzero(self.state == RUNNING)[0]
            if len(running) == 0:
                waiting = self.state == AT_BARRIER
                if not waiting.any():
                    if (self.state != EXITED).any():
                        raise Fault("threads wait for others that never come")
                    return
                if ((self.state != EXITED) & ~waiting).any():
                    raise Fault("a barrier waits for threads that wait elsewhere")
                self.state[waiting] = RUNNING
                continue
            pcs = self.pc[running]
            first = int(pcs.min())
            here = pcs == first
            others = pcs[~here]
            self.run_group(first, running[here], int(others.min()) if len(others) else len(self.program.steps))

    def run_group(self, pc, group, limit):
        """Runs threads that are at the same instruction, until they branch or come to where others are."""
        warps = np.unique(self.warp_of[group])
        while True:
            instruction = self.program.kernel.instructions[pc]
            self.issued[pc] += len(warps)
            if self.program.control[pc]:
                self.pc[group] = pc + 1
                self.control(pc, instruction, group)
                return
            self.program.step(pc)(self, group, warps)
            pc += 1
            if pc >= limit:
                self.pc[group] = pc
                return

    def guarded(self, guard, threads):
        """Those of `threads` whose predicate is true."""
        if not guard:
            return threads
        name = guard.lstrip("!")
        bits = self.UP[alu.number(name)][self.warp_of[threads]] if name[0] == "U" else self.P[alu.number(name)][threads]
        return threads[~bits if guard[0] == "!" else bits]

    def control(self, pc, instruction, group):
        kind = instruction.opcode.split(".")[0]
        taken = self.guarded(instruction.guard, group)
        operands = instruction.operands
        if kind == "BRA":
            self.branch(instruction, taken)
        elif kind == "EXIT":
            self.state[taken] = EXITED
            self.release(taken)
        elif kind == "CALL":
            self.pc[taken] = self.program.label(operands[-1])
        elif kind == "RET":
            register = alu.number(operands[0].split()[0])
            for thread in taken:
                self.pc[thread] = self.program.index_of[int(self.R[register][thread])]
        elif kind == "BRX":  # relative to the next instruction, from a table of the switch's targets
            register, offset = operands[0].split()[:2]
            base = instruction.address + 16 + int(offset, 16)
            for thread, place in zip(taken, self.R[alu.number(register)][taken]):
                self.pc[thread] = self.program.index_of[base + int(place)]
        elif kind == "BSYNC":
            self.wait(taken, AT_CONVERGENCE, alu.number(operands[0]))
        elif kind == "BREAK":
            barrier = alu.number(operands[-1])
            lanes = self.masks_of(taken)
            self.masks[barrier] &= ~lanes[self.warp_of]
            self.release(taken)
        elif kind == "BAR":
            if len(taken) and self.diverged(taken):
                raise Fault("a barrier of the block is reached by a part of a warp")
            self.state[taken] = AT_BARRIER
        elif kind == "WARPSYNC":
            if instruction.opcode != "WARPSYNC.ALL":
                raise Fault("a warp is not together where all its threads exchange values")
            self.wait(taken, AT_WARPSYNC, 0)
        else:
            raise Fault(f"not understood: {instruction.opcode}")

    def branch(self, instruction, taken):
        operands = instruction.operands
        if instruction.opcode == "BRA.DIV":  # to code for warps that are not together
            if self.diverged(taken):
                raise Fault("a warp is not together where all its threads exchange values")
            return
        for condition in operands[:-1]:
            taken = self.guarded(condition, taken)
        self.pc[taken] = self.program.label(operands[-1])

    def masks_of(self, threads):
        """The threads' lanes as one mask for each warp."""
        masks = np.zeros(self.warps, np.uint32)
        np.bitwise_or.at(masks, self.warp_of[threads], (np.uint32(1) << (threads % WARP).astype(np.uint32)))
        return masks

    def diverged(self, threads):
        alive = self.masks_of(np.nonzero(self.state != EXITED)[0])
        own = self.masks_of(threads)
        return bool(((own != 0) & (own != alive)).any())

    def converge_at(self, barrier, threads):
        self.masks[barrier][threads] = self.masks_of(threads)[self.warp_of[threads]]

    def wait(self, threads, state, barrier):
        self.state[threads] = state
        self.waits_for[threads] = barrier
        self.release(threads)

    def release(self, threads):
        """Lets go on who waits, in these threads' warps, for nobody any more."""
        for warp in np.unique(self.warp_of[threads]):
            lanes = np.arange(warp * WARP, warp * WARP + WARP)
            alive = self.state[lanes] != EXITED
            synced = self.state[lanes] == AT_WARPSYNC
            if synced.any() and (synced == alive).all():
                self.state[lanes[synced]] = RUNNING
            at = self.state[lanes] == AT_CONVERGENCE
            for barrier in np.unique(self.waits_for[lanes[at]]) if at.any() else ():
                here = at & (self.waits_for[lanes] == barrier)
                bits = int(sum(1 << int(i) for i in np.nonzero(here)[0]))
                dead = int(sum(1 << int(i) for i in np.nonzero(~alive)[0]))
                for thread in lanes[here]:
                    if int(self.masks[barrier][thread]) & ~dead & ~bits == 0:
                        self.state[thread] = RUNNING
