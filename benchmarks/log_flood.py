"""The node side's log source while an NCCL INFO log grows by 100 MB a second.

Run: ``python -m benchmarks.log_flood [SECONDS]``. Another process writes; the source looks once a second, as the agent
lets it. What counts is its CPU, how far behind it is, and whether it had to sample (it says so then).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.nccl_logs import lines
from benchmarks.report import FigureRow, report
from collectors.node.logs.following.source import LogSource
from collectors.node.shared import Shared
from collectors.samples.control import Settings
from collectors.samples.logs import CommProgress, LogFile

RATE = 100_000_000
"""Bytes a second."""
SLICES = 20
"""Writes a second."""
BUDGET_CORE = 60.0

WRITER = """
import sys, time
block = open(sys.argv[1], "rb").read()
rate, slices, seconds = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
step, at, began, written = rate // slices, 0, time.monotonic(), 0
with open(sys.argv[2], "ab", buffering=0) as log:
    while time.monotonic() - began < seconds:
        end = block.find(b"\\n", at + step) + 1 or len(block)
        written += log.write(block[at:end])
        at = end % len(block)
        time.sleep(max(0.0, began + written / rate - time.monotonic()))
print(written)
"""


def main() -> None:
    """Let the log grow, look at it once a second, print the table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        block, log = Path(folder) / "block", Path(folder) / "nccl.log"
        block.write_text("".join(lines(16 << 20)))
        log.touch()
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(block), str(log), str(RATE), str(SLICES), str(seconds)],
            stdout=subprocess.PIPE,
        )
        source = LogSource(Shared())
        source.configure(Settings(1.0, 0.0, None, [str(log)], [], []))
        cpu, behind, sampled, samples, launched = [], [], 0.0, [], 0
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            began, used = time.monotonic(), time.thread_time()
            seen = list(source.look(time.time()))
            cpu.append((time.thread_time() - used) * 100)
            samples.append(float(len(seen)))
            sampled = max((float(file.left_out) for file in seen if isinstance(file, LogFile)), default=sampled)
            behind.append(sum(each.tail.behind for each in source._followed.values()) / 1e6)  # noqa: SLF001
            launched = max((p.launched for p in seen if isinstance(p, CommProgress)), default=launched)
            time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))
        written = int(writer.communicate()[0])
    report(
        "log_flood",
        [
            FigureRow("the log's growth", "MB/s", (written / seconds / 1e6,)),
            FigureRow("the source's CPU", "% of a core", tuple(cpu[2:]), BUDGET_CORE, "170 MB/s by one regex"),
            FigureRow("behind at the end of a look", "MB", tuple(behind[2:])),
            FigureRow("left out, and said so", "% of the bytes", (sampled / written * 100,)),
            FigureRow("samples sent per look", "samples", tuple(samples[2:])),
            FigureRow("collectives counted on one communicator", "", (float(launched),)),
        ],
    )


if __name__ == "__main__":
    main()
