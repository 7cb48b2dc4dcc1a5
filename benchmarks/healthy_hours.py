"""Watches healthy jobs live and counts false alarms.

    python -m benchmarks.healthy_hours [--minutes 20] [--slice 100] [--lock FILE]

Jobs that wait below Python and jobs over gloo on two real nodes: short steps and steps of 20 and 30 s, a pipeline with
bubbles, one rank that evaluates or compiles, heartbeat lines. Each is watched for a slice of time, as ``hangtop
record`` does, with the patience that a user has who sets none; then comes the next one, round after round. Seconds and
alarms add up in ``benchmarks/results/healthy_hours.json``, and from there in ``docs/accuracy.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import TypedDict

from benchmarks.held import held
from benchmarks.report import RESULTS
from hangtop.diagnosis.finding import Verdict
from hangtop.session.live import live_session
from hangtop.session.options import SessionOptions
from tests.nodes.test_faults_healthy import JOBS
from tests.support.device_cases import CASES
from tests.support.device_jobs import DeviceJobs, device_jobs, say
from tests.support.faulty import FaultyJob

KEPT = RESULTS / "healthy_hours.json"
PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
BEGIN, END = "<!-- hours:begin -->", "<!-- hours:end -->"
DEVICE = (
    "data_moves", "data_steps_of_30_s", "pipeline_bubble", "grid_evaluates", "data_compiles", "data_heartbeat",
    "data_queue_moves", "grid_steps_of_30_s",
)  # fmt: skip
GLOO = ("fast", "steps_of_20_s", "fast_trainer", "fast_mesh", "saves_for_30_s")


class WatchedHours(TypedDict):
    """What one job was watched for, all slices together."""

    seconds: float
    alarms: list[str]
    """Each alarm that was raised: kind, ranks, and how far into its slice."""


@contextlib.contextmanager
def running(jobs: DeviceJobs, name: str) -> Iterator[FaultyJob]:
    """A healthy job, from when it is under way to its end."""
    if name in CASES:
        with jobs.running(name) as job:
            yield job
        return
    program, env, word, rank = JOBS[name]
    job = jobs.nursery.launch(program, name, env=env)
    try:
        job.wait_for(word, rank)
        yield job
    finally:
        job.end()


async def watch(jobs: DeviceJobs, job: FaultyJob, seconds: float) -> WatchedHours:
    """Watch a job live for so long."""
    options = SessionOptions(
        targets=tuple(jobs.cluster.names), ssh_config=jobs.cluster.ssh_config, job=("HX_CASE", job.case), batch=True
    )
    session = live_session(options)
    began = time.monotonic()
    alarms: list[str] = []

    def changed(_before: Verdict | None, now: Verdict) -> None:
        at = time.monotonic() - began
        raised = [finding for finding in now.findings if finding.severity != "info"]
        alarms.extend(f"{finding.kind} {list(finding.ranks)} after {at:.0f} s" for finding in raised)

    session.on_verdict.append(changed)
    with tempfile.TemporaryDirectory() as folder:
        session.keeping.record(Path(folder) / "watch.hangtop")
        try:
            await session.start()
            await asyncio.sleep(seconds)
            if session.verdict is None:
                alarms.append("no verdict was made")
        finally:
            await session.close()
    return {"seconds": round(time.monotonic() - began, 1), "alarms": alarms}


def kept() -> dict[str, WatchedHours]:
    """What was watched before."""
    known: dict[str, WatchedHours] = json.loads(KEPT.read_text(encoding="utf-8"))["jobs"] if KEPT.exists() else {}
    return known


def keep(name: str, seen: WatchedHours) -> None:
    """Add a slice to what a job was watched for, and write the page."""
    known = kept()
    before = known.get(name, {"seconds": 0.0, "alarms": []})
    known[name] = {
        "seconds": round(before["seconds"] + seen["seconds"], 1),
        "alarms": [*before["alarms"], *seen["alarms"]],
    }
    text = json.dumps({"jobs": dict(sorted(known.items()))}, indent=1)
    KEPT.write_text(text + "\n", encoding="utf-8")
    page, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{page}{BEGIN}\n{table(known)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def table(known: dict[str, WatchedHours]) -> str:
    """The section's table."""
    lines = ["| healthy job | watched | alarms |", "|---|---|---|"]
    for name, one in sorted(known.items()):
        alarms = "; ".join(one["alarms"]) or "0"
        lines.append(f"| {name.replace('_', ' ')} | {one['seconds'] / 60:.1f} min | {alarms} |")
    hours = sum(one["seconds"] for one in known.values()) / 3600
    return "\n".join([*lines, f"| all | {hours:.2f} h | {sum(len(one['alarms']) for one in known.values())} |"])


def main() -> None:
    """Watch one after the other until the time is over."""
    reads = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reads.add_argument("--minutes", type=float, default=20.0)
    reads.add_argument("--slice", type=float, default=100.0, metavar="S", help="seconds of watching one job at a time")
    reads.add_argument("--lock", type=Path, metavar="FILE", help="hold this lock during each slice")
    given = reads.parse_args()
    ends = time.monotonic() + 60 * given.minutes
    with device_jobs() as jobs:
        for name in cycle(name for pair in zip(DEVICE, cycle(GLOO), strict=False) for name in pair):
            with held(given.lock):
                if time.monotonic() > ends:
                    return
                with running(jobs, name) as job:
                    seen = asyncio.run(watch(jobs, job, given.slice))
            say(f"{name:22} {seen['seconds']:6.1f} s  {'; '.join(seen['alarms']) or 'no alarm'}")
            keep(name, seen)


if __name__ == "__main__":
    main()
