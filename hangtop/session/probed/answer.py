"""One probe of collectives from plan to answer: measured and judged."""

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


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe found, and what its nodes should give."""

    report: ProbeReport
    findings: tuple[Finding, ...]
    outcome: str
    """``ok``, ``slow``, ``failed`` or ``cancelled``."""
    expected: expected.Expected | None
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


def judged(report: ProbeReport, job: Job) -> Probed:
    """What a report means for the nodes of a job."""
    found = probes.all_findings(report, job)
    arranged = arrangement(job, {rank.node for rank in report.ranks})
    should = expected.expected(job, report)
    return Probed(report, found, probes.outcome(report, found), should, arranged)


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
    answer = judged(report, session.job())
    session.probed.append(answer)
    return answer


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
