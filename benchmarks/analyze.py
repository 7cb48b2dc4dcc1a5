"""``hangtop analyze`` on a large NCCL INFO log, one core, beside ``grep -c opCount``.

Run: ``python -m benchmarks.analyze [MEGABYTES]`` (1,000 by default; that many are written to the temporary folder).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.nccl_logs import write
from benchmarks.report import FigureRow, report

ROUNDS = 3
BUDGET_MB_S = 150.0
BUDGET_RSS_MB = 250.0
HANGTOP = str(Path(sys.executable).with_name("hangtop"))


def measured(command: Sequence[str]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak resident megabytes of a command, on one core."""
    began = time.perf_counter()
    # not to /dev/null: grep stops at the first match when nobody wants its output
    process = subprocess.Popen(["taskset", "-c", "0", *command], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Write the log, read it with both, print the table."""
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
