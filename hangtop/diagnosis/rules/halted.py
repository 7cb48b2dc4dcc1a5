"""A rank whose process the kernel does not let run: stopped, or in a call that no signal ends."""

from __future__ import annotations

from collections.abc import Iterator

from hangtop.diagnosis.case import Case
from hangtop.diagnosis.finding import Evidence, Finding, NextStep
from hangtop.diagnosis.proof import crowd_of, of_standing
from hangtop.diagnosis.standing import Standing
from hangtop.diagnosis.tables.thresholds import LONG_WORK_S
from hangtop.diagnosis.tables.wchan import sleep_at
from hangtop.diagnosis.words import count, duration


def stopped(case: Case) -> Iterator[Finding]:
    """rank_stopped: its process is in state T (a stop signal) or t (a debugger) in every one of several looks.

    Needs the state from /proc, in looks or in dumps.
    """
    for standing in case.scene.of("stopped"):
        state = standing.motion.state or (standing.activity.state if standing.activity else "T")
        by = "a debugger holds it" if state == "t" else "somebody sent it a stop signal"
        how = "Detach the debugger" if state == "t" else f"kill -CONT {standing.pid or 'PID'}"
        yield Finding(
            "rank_stopped", "critical", 0.97,
            f"{_who(standing)} is stopped (state {state}){_crowd(case)}: {by}",
            ranks=(standing.rank,), nodes=_nodes(standing), evidence=_evidence(case, standing),
            advice=f"{how} lets it go on. Find out who stopped it: job control of a shell, a debugger, a batch system "
            "that suspends jobs.",
            next=(NextStep("K", " ".join(["hangtop repair continue", *_nodes(standing)])),) if state == "T" else (),
        )  # fmt: skip


def uninterruptible(case: Case) -> Iterator[Finding]:
    """rank_uninterruptible: state D in every look, or the one process that could not be looked into.

    Needs the state over two seconds or more (a minute for a wait on a local disk, which a big fsync may take), or a
    dump that was refused while those of its neighbours were not.
    """
    for standing in case.scene.of("uninterruptible"):
        wchan = standing.motion.wchan or (standing.activity.wchan if standing.activity else "")
        sleep = sleep_at(wchan)
        if sleep.ordinary and standing.held < LONG_WORK_S:
            continue
        hint = f": {wchan}" + (f", {sleep.meaning}" if sleep.meaning else "") if wchan else ""
        what = f"is in a kernel call that no signal ends (state D for {duration(standing.held)}){hint}"
        yield _uninterruptible(case, standing, what, 0.93)
    for standing in case.scene.of("refused"):
        said = f": {standing.activity.said}" if standing.activity and standing.activity.said else ""
        yield _uninterruptible(case, standing, f"refuses every look, and it alone{said}", 0.7)


def _uninterruptible(case: Case, standing: Standing, what: str, confidence: float) -> Finding:
    return Finding(
        "rank_uninterruptible",
        "critical",
        confidence,
        f"{_who(standing)} {what}{_crowd(case)}",
        ranks=(standing.rank,),
        nodes=_nodes(standing),
        evidence=_evidence(case, standing),
        advice="Storage or a driver does not answer. Look at the kernel log of the node; drain the node if it does not "
        "come back.",
    )


def _who(standing: Standing) -> str:
    return f"rank {standing.rank}" + (f" on {standing.node}" if standing.node else "")


def _nodes(standing: Standing) -> tuple[str, ...]:
    return (standing.node,) if standing.node else ()


def _crowd(case: Case) -> str:
    waiting = case.jam.crowd if case.jam and case.jam.shape == "held_up" else ()
    return f" and holds up {count(len(waiting), 'other')}" if waiting else ""


def _evidence(case: Case, standing: Standing) -> tuple[Evidence, ...]:
    return (*of_standing(standing), *(crowd_of(case.jam) if case.jam else ()))
