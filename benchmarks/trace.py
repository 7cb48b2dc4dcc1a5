"""``hangtop probe trace`` on large traces, and the reader that is sent to nodes, one core each.

Run: ``python -m benchmarks.trace [MEGABYTES …]`` (300 and 1,000 by default, written to a temporary folder). The traces
are Kineto's text: a tenth of the events are kernels, the others operators, launches and Python frames.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import FigureRow, report
from tests.support.traces import collective, document, event

ROUNDS = 3
LARGE = 500
"""Megabytes from which once is enough."""
BUDGET_MB_S = 25.0
BUDGET_NODE_MB_S = 25.0
BUDGET_RSS_MB = 250.0
HANGTOP = str(Path(sys.executable).with_name("hangtop"))
NODE = (
    "import sys; from collectors.probes.trace.remote.reduction import of_file; "
    "trace = of_file(sys.argv[1]); assert trace.events > 1000 and not trace.why, trace.why"
)
STEP_MS = 100.0
KERNEL = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
LAUNCHED = '"External id": 5, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": 77'


def step_text(at: float) -> str:
    """The events of one step, which begins at ``at`` milliseconds: 600 kernels of 100 µs, 20 collectives."""
    rows = [event("user_annotation", "ProfilerStep#7", at, STEP_MS, pid=4711)]
    for number in range(600):
        start = at + number * 0.15
        shapes = '"External id": 5, "Record function id": 0, "Concrete Inputs": ["", "", "", ""], "Ev Idx": 8'
        frames = [f"torch/nn/modules/module.py(1{depth}): forward" for depth in range(6)]
        rows += [event("python_function", frame, start, 0.14, pid=4711) for frame in frames]
        rows += [
            event("cpu_op", "aten::linear", start, 0.09, shapes, pid=4711),
            event("cpu_op", "aten::addmm", start + 0.01, 0.07, shapes, pid=4711),
            event("cuda_runtime", "cudaLaunchKernel", start + 0.02, 0.01, '"correlation": 77', pid=4711),
            event("kernel", KERNEL, start + 0.03, 0.1, LAUNCHED),
        ]
        if number % 30 == 0:
            rows.append(collective(start + 0.05, 0.5))
    return ",".join(rows)


def write(path: Path, size: int) -> int:
    """Write a trace of about so many bytes; the size that it has. Every step has times of its own."""
    head, tail = document(["@"], 0).split("@")
    written = step = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(head)
        while written < size:
            text = step_text(step * STEP_MS)
            file.write(("," if step else "") + text)
            written += len(text)
            step += 1
        file.write(tail)
    return path.stat().st_size


def measured(command: Sequence[str]) -> tuple[float, float]:
    """CPU seconds and peak resident megabytes of a command, on one core."""
    process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"{command[0]} failed: {status}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def rows(folder: Path, megabytes: int) -> list[FigureRow]:
    """Both readers on a plain and a compressed trace of this size."""
    trace = folder / "rank0.json"
    size = write(trace, megabytes * 1_000_000) / 1e6
    began = time.perf_counter()
    subprocess.run(["gzip", "-1", "-k", str(trace)], check=True)
    print(f"{size:.0f} MB, compressed in {time.perf_counter() - began:.0f} s", file=sys.stderr)
    found = []
    rounds = ROUNDS if megabytes < LARGE else 1
    for name, path in ((f"trace of {size:.0f} MB", trace), (f"{size:.0f} MB, gzip", trace.with_suffix(".json.gz"))):
        here = [measured([HANGTOP, "probe", "trace", str(path), "--json"]) for _ in range(rounds)]
        there = [measured([sys.executable, "-c", NODE, str(path)]) for _ in range(1 if path != trace else rounds)]
        for where, taken, budget in (("here", here, BUDGET_MB_S), ("on a node", there, BUDGET_NODE_MB_S)):
            speeds, peaks = tuple(size / cpu for cpu, _ in taken), tuple(rss for _, rss in taken)
            found.append(FigureRow(f"{name}, read {where}, per CPU second", "MB/s", speeds, budget))
            found.append(FigureRow(f"{name}, read {where}, peak memory", "MB", peaks, BUDGET_RSS_MB))
    trace.unlink()
    trace.with_suffix(".json.gz").unlink()
    return found


def main() -> None:
    """Write the traces, read them, print the table."""
    sizes = [int(word) for word in sys.argv[1:]] or [300, 1000]
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            report(f"trace_{size}", rows(Path(folder), size))


if __name__ == "__main__":
    main()
