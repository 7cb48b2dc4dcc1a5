"""Plays the suites of faults on real nodes and keeps what hangtop said of each, with how sure it was.

    python -m benchmarks.suites device [--only data_reader …] [--variant container] [--way triage …] [--lock FILE]
    python -m benchmarks.suites gloo [--only reader …] [--lock FILE]

``device``: the jobs that wait below Python (``tests/support/device_cases.py``), asked by triage, by the live session
and by replay. ``gloo``: the hangs and the healthy jobs of ``tests/nodes``, asked by triage. Needs what these tests
need. ``python -m benchmarks.certainty`` counts what is kept.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.held import held
from benchmarks.verdicts import NOTHING, JudgedAnswer, keep
from tests.nodes.test_faults_healthy import JOBS
from tests.support.device_cases import CASES
from tests.support.device_jobs import VARIANTS, WAYS, DeviceJobs, device_jobs, line, say, wrong
from tests.support.faulty import Answer, FaultyJob, Nurseries, Triage, nurseries
from tests.support.hung_cases import CASES as HANGS


def judged(case: str, way: str, answer: Answer, *, healthy: bool, right: bool) -> JudgedAnswer:
    """The row of one answer."""
    raised = [finding for finding in answer.findings if finding["severity"] != "info"]
    certainty = raised[0]["certainty"] if raised else NOTHING
    first = f": {raised[0]['kind']} {raised[0]['ranks']}" if raised else ""
    return JudgedAnswer(case, way, healthy, f"{answer.verdict}{first}", certainty, right, round(answer.took, 2))


def play_device(jobs: DeviceJobs, name: str, ways: Sequence[str], variant: str) -> Iterator[JudgedAnswer]:
    """Ask about one job that waits below Python."""
    case = CASES[name]
    for way, answer in jobs.answers(name, ways).items():
        say(line(name, way, case, answer))
        told = f"{way}/{variant}" if variant else way
        yield judged(name, told, answer, healthy=case.healthy, right=not wrong(case, answer))


def play_hang(nursery: Nurseries, name: str) -> JudgedAnswer:
    """Ask about one job over gloo that hangs."""
    case = HANGS[name]
    job = nursery.launch(case.program, name, env={"HX_FAULT": case.fault, "HX_WHO": str(case.who)})
    try:
        if case.signal:
            job.wait_for("moves")
            job.signal(case.who, signal.Signals(case.signal))
        else:
            job.wait_for("struck", case.who)
        answer = _asked(nursery, job)
    finally:
        job.end()
    right = bool(answer.findings) and answer.named() == ("hung", case.kind, list(case.ranks))
    return judged(name, "triage", answer, healthy=False, right=right)


def play_healthy(nursery: Nurseries, name: str) -> JudgedAnswer:
    """Ask about one healthy job over gloo, or one that is merely slow."""
    program, env, word, rank = JOBS[name]
    job = nursery.launch(program, name, env=env)
    try:
        job.wait_for(word, rank)
        answer = _asked(nursery, job)
    finally:
        job.end()
    if name == "slow_rank":
        right = bool(answer.findings) and answer.named() == ("slow", "straggler_rank", [2])
        return judged(name, "triage", answer, healthy=False, right=right)
    return judged(name, "triage", answer, healthy=True, right=not answer.alarms)


def _asked(nursery: Nurseries, job: FaultyJob) -> Answer:
    return Triage(nursery.cluster, case=job.case).answer()


def main() -> None:
    """Play what is asked for."""
    reads = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reads.add_argument("suite", choices=("device", "gloo"))
    reads.add_argument("--only", action="append", default=[], choices=[*CASES, *HANGS, *JOBS], metavar="NAME")
    reads.add_argument("--way", action="append", choices=WAYS, help="device: only these (default: all)")
    reads.add_argument("--variant", choices=VARIANTS, default="", help="device: nodes on which less is to be seen")
    reads.add_argument("--lock", type=Path, metavar="FILE", help="hold this lock during each case")
    given = reads.parse_args()
    if given.suite == "device":
        with device_jobs(given.variant) as jobs:
            for name in [name for name in CASES if not given.only or name in given.only]:
                with held(given.lock):
                    try:
                        keep("device", play_device(jobs, name, given.way or WAYS, given.variant))
                    except TimeoutError as error:  # the job did not come up: nothing was asked
                        say(f"{name:26} {error}")
        return
    with nurseries() as nursery:
        for name in [name for name in (*HANGS, *JOBS) if not given.only or name in given.only]:
            with held(given.lock):
                row = play_hang(nursery, name) if name in HANGS else play_healthy(nursery, name)
            say(f"{name:26} {'ok   ' if row.right else 'WRONG'} {row.took_s:5.1f} s  {row.certainty:8} {row.said}")
            keep("gloo", [row])


if __name__ == "__main__":
    main()
