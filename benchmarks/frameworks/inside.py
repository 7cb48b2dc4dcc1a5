"""Has jobs of real frameworks call ``hangtop.inside``, and tells what is seen of them, and what is said of a hang.

    python benchmarks/frameworks/inside.py [--only Lightning] [--cache DIR] [--lock FILE]

Each framework's job of two ranks, with the lines of docs/inside.md in it: left alone, its pages are read for some
seconds (which phases come, how far the steps get) and it is asked for ``check same``; with a reader that blocks, and
with own code that never ends, ``triage --read-only`` has to name the rank, its step and its phase: no stack may be
taken then. hangtop is installed beside the frameworks as users do it, ``pip install --no-deps``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.frameworks import setup
from benchmarks.frameworks.cases import FRAMEWORKS, MISHAPS, Case, Framework
from benchmarks.frameworks.play import ROOT, JobOfCase, asked
from benchmarks.held import held
from collectors.node.processes import pages

NAMES = ("Lightning", "Lightning spawn", "Accelerate", "HF Trainer", "DeepSpeed ZeRO-3")
FAULTS = ("reader", "busy")
RANKS = 2
READ_S = 5.0
"""Seconds for which pages are read."""


def main() -> None:
    """Play, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="framework")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "hangtop-frameworks")
    parser.add_argument("--lock", type=Path, metavar="FILE", help="hold this lock while a job is looked at")
    options = parser.parse_args()
    python = setup.environment(options.cache)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", str(ROOT)], check=True)
    versions = setup.versions(python)
    for framework in FRAMEWORKS:
        if framework.name not in (options.only or NAMES) or not versions[framework.package]:
            continue
        print(f"{framework.name} {versions[framework.package]}", flush=True)
        for line in _lines(framework._replace(ranks=RANKS), python, options.cache, options.lock):
            print(f"    {line}", flush=True)


def _lines(framework: Framework, python: Path, cache: Path, lock: Path | None) -> Iterator[str]:
    with _running(Case(framework, MISHAPS["healthy"], 0), python, cache, lock) as job:
        yield _told(job.pids())
        yield _checked(job)
    for name in FAULTS:
        with _running(Case(framework, MISHAPS[name], 1), python, cache, lock) as job:
            yield f"{name}: " + _said(asked(job, "triage", "--read-only", "--json", "--batch"))


@contextlib.contextmanager
def _running(case: Case, python: Path, cache: Path, lock: Path | None) -> Iterator[JobOfCase]:
    with tempfile.TemporaryDirectory(prefix="hangtop-case-", ignore_cleanup_errors=True) as name:
        job = JobOfCase(case, python, Path(name), cache, further={"INSIDE": "1", "DEVICES": str(RANKS)})
        try:
            job.start()
            with held(lock):
                job.strike()
                yield job
        finally:
            job.end()


def _told(pids: dict[int, int]) -> str:
    """What the pages say for some seconds: steps, and the phases that come."""
    device = pages.memfd_device()
    assert device is not None, "no memfd here"
    ends = time.monotonic() + READ_S
    phases: dict[int, Counter[str]] = {rank: Counter() for rank in pids}
    steps: dict[int, list[int]] = {rank: [] for rank in pids}
    while time.monotonic() < ends:
        for rank, pid in pids.items():
            page = pages.find("/proc", pid, os.getuid(), device)
            head = None if page is None else pages.read_head(page)
            if page is None or head is None:
                return f"no page of rank {rank}"
            os.close(page.file)
            pulse = head.pulse(pid)
            phases[rank][pulse.phase or "none"] += 1
            steps[rank].append(-1 if pulse.step is None else pulse.step)
        time.sleep(0.0005)
    said = []
    for rank, counted in sorted(phases.items()):
        shares = ", ".join(f"{name} {100 * number / counted.total():.1f} %" for name, number in counted.most_common())
        said.append(f"rank {rank}: step {steps[rank][0]} to {steps[rank][-1]}; {shares}")
    return "; ".join(said)


def _checked(job: JobOfCase) -> str:
    answer = asked(job, "check", "same", "--yes", "--json", "--batch")
    return "; ".join(answer["summaries"]) or f"{answer['not_asked']} {answer['silent']}"


def _said(answer: dict[str, Any]) -> str:
    first = next((finding for finding in answer["findings"] if finding["severity"] != "info"), None)
    if first is None:
        return f"{answer['verdict']}: {answer['summary']}"
    return f"`{first['kind']}`: {first['summary']}; {'; '.join(one['text'] for one in first['evidence'])}"


if __name__ == "__main__":
    main()
