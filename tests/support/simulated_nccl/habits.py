"""What a job does besides its steps: it compiles, evaluates, says that it is alive. All of it is healthy."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import torch

from tests.support.simulated_nccl.asked import NcclJobOptions
from tests.support.simulated_nccl.stream import SimulatedStream

NICENESS = 10
"""A main thread that spins leaves the processor to whoever else wants it, gloo's threads and those of the GPU first."""
_COMPILE = """
def compile_fx_inner(graph, seconds, clock):
    until, kernels = clock() + seconds, 0
    while clock() < until:
        compile("\\n".join(f"def kernel_{n}(x): return x * {n} + {kernels}" for n in range(graph)), "<kernel>", "exec")
        kernels += 1
    return kernels
"""


def settle(seconds_between: float) -> None:
    """Be nice with this thread alone, and say every so many seconds that this process lives; 0: say nothing."""
    os.nice(NICENESS)
    if seconds_between:
        threading.Thread(target=_beat, args=(seconds_between,), name="heartbeat", daemon=True).start()


def _beat(seconds: float) -> None:
    began = time.monotonic()
    while True:
        time.sleep(seconds)
        at = time.strftime("%Y-%m-%d %H:%M:%S")
        print(f"{at} heartbeat: worker alive, {time.monotonic() - began:.0f} s", flush=True)


def compile_model(seconds: float) -> None:
    """Compile for so long: work of the host alone, in a file of torch's compiler."""
    space: dict[str, object] = {}
    path = Path(torch.__file__).parent / "_inductor" / "compile_fx.py"
    exec(compile(_COMPILE, str(path), "exec"), space)
    print(f"compiling the model, takes about {seconds:.0f} s", flush=True)
    space["compile_fx_inner"](40, seconds, time.monotonic)  # type: ignore[operator]


def evaluate(stream: SimulatedStream, seconds: float) -> None:
    """Evaluate for so long: the GPU computes, the host waits for each batch, no peer takes part."""
    until, batch = time.monotonic() + seconds, 0
    print("evaluating on rank 0", flush=True)
    while time.monotonic() < until:
        for _layer in range(4):
            stream.compute(0.2)
        stream.item()
        batch += 1
    print(f"evaluated {batch} batches", flush=True)


def between_steps(asked: NcclJobOptions, stream: SimulatedStream, rank: int, step: int) -> None:
    """Do before ``step`` what is due."""
    if step == asked.compile_at and rank == asked.plan.rank:
        compile_model(asked.compile_for)
    if step == asked.evaluate_at + 1 and asked.evaluate_at and rank == 0:
        evaluate(stream, asked.evaluate_for)
