"""``hangtop analyze`` on a large NCCL INFO log, on one core, compared with ``grep -c opCount``.

Run: ``python -m benchmarks.analyze [MEGABYTES]`` (default 1,000; the log is written to the temporary folder).
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.report import FigureRow, report

ROUNDS = 3
RANKS = 8
OPERATIONS = ("AllReduce", "ReduceScatter", "AllGather")
SMALL_TALK = 0.05
"""Share of log lines that are no collective."""
BLOCK = 32 << 20
"""Bytes of the block of log that is repeated."""
BUDGET_MB_S = 150.0
BUDGET_RSS_MB = 250.0
HANGTOP = str(Path(sys.executable).with_name("hangtop"))


def lines(size: int) -> Iterator[str]:
    """About ``size`` bytes of log: initialisation, then collectives, and a share of other lines."""
    rnd = random.Random(1)
    comms = [[f"0x{0x55D000000000 + rnd.randrange(1 << 36):x}" for _ in OPERATIONS] for _ in range(RANKS)]
    written = 0
    for rank in range(RANKS):
        for number, comm in enumerate(comms[rank]):
            for phase in ("START", "COMPLETE"):
                yield (
                    f"node1:{100 + rank}:{200 + rank} [{rank}] NCCL INFO ncclCommInitRank comm {comm} rank {rank}"
                    f" nranks 8 cudaDev {rank} nvmlDev {rank} busId {rank + 1}000 commId 0x{4096 + number:x}"
                    f" - Init {phase}\n"
                )
    count = 0
    while written < size:
        number = rnd.randrange(3)
        elements = rnd.randrange(1 << 22)
        for rank in range(RANKS):
            head = f"node1:{100 + rank}:{200 + rank} [{rank}] NCCL INFO "
            line = (
                f"{head}{OPERATIONS[number]}: opCount {count:x} sendbuff 0x{0x7F0000000000 + rnd.randrange(1 << 36):x}"
                f" recvbuff 0x{0x7F0000000000 + rnd.randrange(1 << 36):x} count {elements} datatype 7 op 0 root 0 comm"
                f" {comms[rank][number]} [nranks=8] stream 0x{0x55D000000000 + rank:x}\n"
            )
            written += len(line)
            yield line
            if rnd.random() < SMALL_TALK:
                chatter = (
                    f"{head}Channel {count % 16:02}/0 : {rank}[{rank}] -> {(rank + 1) % 8}[{rank}] via P2P/CUMEM\n"
                )
                written += len(chatter)
                yield chatter
        count += 1


def write(path: Path, size: int) -> int:
    """Write a log of at least ``size`` bytes, by repeating one block; returns its size."""
    text = "".join(lines(BLOCK)).encode()
    with path.open("wb") as file:
        written = 0
        while written < size:
            written += file.write(text)
    return written


def measured(command: Sequence[str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak resident megabytes of a command, on one core."""
    began = time.perf_counter()
    # not to /dev/null: there grep stops at the first match
    process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Write the log, measure both commands, and report."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "nccl.log"
        size = write(log, megabytes * 1_000_000) / 1e6
        analyze = [measured([HANGTOP, "analyze", str(log), "--json"]) for _ in range(ROUNDS)]
        grep = [measured(["grep", "-c", "opCount", str(log)]) for _ in range(ROUNDS)]
    report(
        "analyze",
        [
            FigureRow(
                "hangtop analyze, per CPU second", "MB/s", tuple(size / cpu for _, cpu, _ in analyze), BUDGET_MB_S
            ),
            FigureRow("hangtop analyze, wall clock", "MB/s", tuple(size / wall for wall, _, _ in analyze), BUDGET_MB_S),
            FigureRow("hangtop analyze, peak memory", "MB", tuple(rss for _, _, rss in analyze), BUDGET_RSS_MB),
            FigureRow(
                "grep -c opCount, per CPU second", "MB/s", tuple(size / cpu for _, cpu, _ in grep), floor="1,000 MB/s"
            ),
        ],
    )


if __name__ == "__main__":
    main()
