"""One probe of collectives from plan to answer: measured, judged, compared with the last one, kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from collectors.probes.allreduce import nccl_tests
from collectors.probes.allreduce.plan import ProbePlan
from collectors.probes.allreduce.run import cancelled
from collectors.samples.probes import ProbePair, ProbeReport
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.measured import expected, probes
from hangtop.diagnosis.node_order import BY_NAME, Arrangement, arrangement
from hangtop.session.asking.probing import Connections, allreduce_probe
from hangtop.session.probed import kept


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe found, and what it can be compared with."""

    report: ProbeReport
    findings: tuple[Finding, ...]
    outcome: str
    """``ok``, ``slow``, ``failed`` or ``cancelled``."""
    expected: expected.Expected | None
    previous: kept.Previous | None
    unkept: str = ""
    """Why the result could not be kept for the next time."""
    arranged: Arrangement = BY_NAME
    """Where its nodes hang."""

    @property
    def summary(self) -> str:
        """One line."""
        if self.findings:
            return self.findings[0].summary
        if self.report.outcome != "done":
            return self.report.why
        best = max(self.report.figures, key=lambda figure: figure.busbw, default=None)
        speed = f"; {best.op} reaches {best.busbw:.3g} GB/s (busbw)" if best else ""
        return f"{self.report.world_size} ranks met over {self.report.backend}{speed}"


def judged(report: ProbeReport, job: Job, previous: kept.Previous | None = None, unkept: str = "") -> Probed:
    """What a report means for the nodes of a job."""
    found = probes.all_findings(report, job)
    arranged = arrangement(job, {rank.node for rank in report.ranks})
    should = expected.expected(job, report)
    return Probed(report, found, probes.outcome(report, found), should, previous, unkept, arranged)


class Probing(Connections, Protocol):
    """What a probe needs of a session."""

    probed: list[Probed]
    """Where its answer is kept as long as the session lasts."""

    def job(self) -> Job:
        """The frozen picture of this moment."""


async def probe(session: Probing, plan: ProbePlan, progress: Callable[[str], None]) -> Probed:
    """Run the plan over a session's connections, and judge by what the nodes have told of themselves until its end.

    Cancelled, it ends everything on every node, then returns what it knows as a cancelled answer: who cancels once
    more breaks the cleaning up.
    """
    at, began = time.time(), time.monotonic()
    try:
        report = await allreduce_probe(session, plan, progress).run()
    except asyncio.CancelledError:
        return judged(cancelled(plan, at, time.monotonic() - began), session.job())
    names = [node.name for node in plan.nodes]
    path = kept.path_of(plan.backend, names)
    previous, unkept = kept.load(path) or _before(session, plan.backend, names), ""
    if report.figures:
        try:
            kept.save(path, kept.as_previous(report), names)
        except OSError as error:
            unkept = f"{path}: {error.strerror or error}"
    answer = judged(report, session.job(), previous, unkept)
    session.probed.append(answer)
    return answer


def _before(session: Probing, backend: str, names: list[str]) -> kept.Previous | None:
    """The last one of this session, where none could be kept beyond it."""
    for answer in reversed(session.probed):
        report = answer.report
        if report.figures and report.backend == backend and {rank.node for rank in report.ranks} == set(names):
            return kept.as_previous(report)
    return None


def as_json(answer: Probed) -> dict[str, Any]:
    """Members of the command's JSON (``docs/findings.md``)."""
    report = answer.report
    wrong = {rank for figure in report.figures for rank in figure.wrong_ranks}
    return {
        "backend": report.backend,
        "world_size": report.world_size,
        "results": [
            {
                "op": figure.op, "bytes": figure.size, "time_us": round(figure.seconds * 1e6, 1),
                "algbw_GBps": figure.algbw, "busbw_GBps": figure.busbw, "correct": not figure.wrong_ranks,
            }
            for figure in report.figures
        ],
        "pairs": list(map(_pair, report.pairs)),
        "gpu_pairs": list(map(_pair, report.by_gpu)),
        "port_pairs": list(map(_pair, report.by_port)),
        "untried": report.untried,
        "ranks": [
            {"rank": rank.rank, "node": rank.node, "gpu": rank.gpu, "state": rank.state, "why": rank.why,
             "late_over_median": rank.late_over_median, "correct": rank.rank not in wrong}
            for rank in report.ranks
        ],
        "network": report.network,
        "nccl_tests": [
            {
                "node": test.node, "program": test.program, "gpus": test.ranks, "wrong": test.wrong, "error": test.why,
                "results": [{"op": f.op, "bytes": f.size, "busbw_GBps": f.busbw} for f in test.figures],
            }
            for test in report.tested
        ],
        "nccl_tests_across": nccl_tests.across(report.tested),
        "expected": _expected(answer),
        "previous": _previous(answer.previous),
    }  # fmt: skip


def _pair(pair: ProbePair) -> dict[str, Any]:
    return {
        "a": pair.a, "b": pair.b, "busbw_GBps": pair.busbw,
        "rtt_us": None if pair.round_trip is None else round(pair.round_trip * 1e6, 1),
        "retransmitted": pair.retransmitted, "error": pair.error,
    }  # fmt: skip


def _expected(answer: Probed) -> dict[str, Any] | None:
    found = answer.expected
    if found is None:
        return None
    best = expected.best(answer.report, found)
    return {
        "busbw_GBps": found.busbw, "of": found.of, "source": found.source,
        "share": None if best is None else best.busbw / found.busbw,
    }  # fmt: skip


def _previous(before: kept.Previous | None) -> dict[str, Any] | None:
    if before is None:
        return None
    return {
        "at": before.at,
        "results": [{"op": op, "bytes": size, "busbw_GBps": speed} for (op, size), speed in before.busbw.items()],
        "pairs": [{"a": a, "b": b, "busbw_GBps": speed} for (a, b), speed in before.pairs.items()],
    }
