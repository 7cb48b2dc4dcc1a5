"""CPU and memory of the node side over a minute, on a node with 8 ranks and 500 other processes.

    python -m benchmarks.node_side [--seconds 60] [--others 500] [--ranks 8] [--sources ranks,host]

The ranks are plain Python processes with a rank's environment, which sleep and write ten log lines a second; the others
only sleep. CPU is that of the node side and its ended children, per minute, without the first seconds. The machine
should otherwise be idle.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.report import FigureRow, report
from collectors.fleet import payload
from collectors.node.ranks.search import YOUNG

SETTLE = 8.0
"""Seconds at the start that count as start-up."""

WINDOW = 10.0
"""Seconds per figure of CPU."""

RANK = """
import os, sys, time
step = 0
while True:
    step += 1
    print("step", step, "loss", 1 / step, flush=True)
    sum(range(20000))
    time.sleep(0.1)
"""


class AgentRun:
    """One run of the agent on this machine, with its output."""

    def __init__(self, only: str, sources: list[str] | None) -> None:
        self.started = time.monotonic()
        self.first: float | None = None
        self.size = 0
        self.ticks: list[tuple[float, list[float]]] = []
        self.kinds: dict[str, int] = {}
        self.process = subprocess.Popen(
            payload.command(sys.executable, nice=False),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"HANGTOP_ONLY": only},
        )
        self._send(payload.pack("collectors.node.agent", {"version": "benchmark", "sources": sources}))
        threading.Thread(target=self._read, daemon=True).start()

    def watch(self, seconds: float) -> None:
        """Send heartbeats for some seconds, then close the input."""
        while time.monotonic() - self.started < seconds:
            time.sleep(2)
            self._send(b"\n")
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            now = time.monotonic() - self.started
            self.size += len(line)
            kind, *rows = json.loads(line)
            self.kinds[kind] = self.kinds.get(kind, 0) + len(rows)
            if kind == "RankPulse" and self.first is None:
                self.first = now
            if kind == "Tick":
                self.ticks += [(now, fields) for fields in rows]


def start_processes(ranks: int, others: int, folder: Path) -> list[subprocess.Popen[bytes]]:
    """Start ranks with logs, and other processes."""
    processes = []
    for rank in range(ranks):
        env = os.environ | {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29577", "BENCHMARK": "node_side",
        }  # fmt: skip
        with (folder / f"rank{rank}.log").open("wb") as log:
            processes.append(subprocess.Popen([sys.executable, "-c", RANK], env=env, stdout=log, stderr=log))
    processes += [subprocess.Popen(["sleep", "3600"]) for _ in range(others)]
    return processes


def cpu_by_window(ticks: list[tuple[float, list[float]]]) -> tuple[float, ...]:
    """CPU seconds per minute in each window of the run; other load on the machine affects single windows."""
    rates = []
    at, spent = ticks[0][0], ticks[0][1][3]
    for now, fields in ticks:
        if now - at >= WINDOW:
            rates.append((fields[3] - spent) / (now - at) * 60)
            at, spent = now, fields[3]
    return tuple(rates)


def main() -> None:
    """Run the agent once, and report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--ranks", type=int, default=8)
    options.add_argument("--others", type=int, default=500)
    options.add_argument("--sources", help="only these sources, to see the cost of each")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        processes = start_processes(given.ranks, given.others, Path(folder))
        try:
            time.sleep(YOUNG)
            run = AgentRun("BENCHMARK=node_side", given.sources and given.sources.split(","))
            run.watch(SETTLE + given.seconds)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.wait()
    settled = [(at, fields) for at, fields in run.ticks if at >= SETTLE]
    print(run.kinds)
    assert run.first is not None
    report(
        "node_side",
        [
            FigureRow("CPU of a minute", "CPU-s", cpu_by_window(settled), 0.3, "0.22"),
            FigureRow("CPU of the start", "CPU-s", (settled[0][1][3],)),
            FigureRow("memory", "MB", (max(fields[4] for _, fields in settled) / 1e6,), 20, "9"),
            FigureRow("first sample of a rank", "s", (run.first,), None, "0.022"),
            FigureRow("a tick takes", "ms", tuple(fields[2] * 1e3 for _, fields in settled)),
            FigureRow("sent a second", "KB", (run.size / 1e3 / settled[-1][0],)),
        ],
    )


if __name__ == "__main__":
    main()
