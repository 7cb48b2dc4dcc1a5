"""Reports of NCCL's RAS socket, 2.24 to 2.32, as text (`VERBOSE STATUS`) and as JSON (2.28.7 and later).

2.28.7 to 2.28.9 write invalid JSON whenever ranks are missing: a comma is absent after ``nvml_dev``; it is put back.
"""

from __future__ import annotations

import re
import time

from collectors.formats import BadFormat, ras_text
from collectors.formats.loose import Loose, document, integer, items, mapping, text
from collectors.samples.collectives import RasCommunicator, RasRank, RasReport

RANKS = ras_text.RANKS
_MISSING_COMMA = re.compile(r'("nvml_dev": -?\d{1,9})(\s{1,200}"status")')


def parse(report: str, *, node: str, at: float) -> RasReport:
    """The report in an answer of the socket; ``at`` is when it was given, unless it says so itself.

    Raises :class:`BadFormat` when it is none.
    """
    start = report.find("{")
    if start >= 0 and '"communicators"' in report:
        return _from_json(report[start:], node, at)
    if "Communicators..." not in report:
        raise BadFormat("no RAS report: it lists no communicators")
    return ras_text.read(report, node, at)


def looks_like(head: str) -> bool:
    """Whether a text that begins so may be a report."""
    return ("Communicators..." in head and "Job summary" in head) or (
        '"communicators_count"' in head and '"nccl_version"' in head
    )


def _from_json(report: str, node: str, at: float) -> RasReport:
    end = report.rfind("}") + 1
    known = mapping(document(_MISSING_COMMA.sub(r"\1,\2", report[:end]).encode("utf-8", "replace")))
    communicators = [_communicator(mapping(each)) for each in items(known.get("communicators"), 100_000)]
    ras = mapping(known.get("ras"))
    took = ras.get("collection_time_sec")
    dead = sorted({f"{r.host} pid {r.pid}" for c in communicators for r in c.ranks if r.state == "dead"})
    return RasReport(
        at=_stamp(text(known.get("timestamp"))) or at,
        node=node,
        nccl=text(known.get("nccl_version"), 40),
        communicators=communicators,
        dead=dead,
        complete=not integer(ras.get("timeouts_count")) and all("INCOMPLETE" not in c.errors for c in communicators),
        took=float(took) if isinstance(took, int | float) and not isinstance(took, bool) else 0.0,
    )


def _stamp(value: str) -> float | None:
    try:
        return time.mktime(time.strptime(value, "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def _communicator(known: Loose) -> RasCommunicator:
    present = [_present(mapping(rank)) for rank in items(known.get("ranks"), RANKS)]
    missing = [_absent(mapping(rank)) for rank in items(known.get("missing_ranks"), RANKS)]
    errors = []
    if missing:
        errors.append("INCOMPLETE")
    if any(rank.async_error for rank in present):
        errors.append("ERROR")
    if len({rank.state for rank in present}) > 1 or len({tuple(sorted(r.counts.items())) for r in present}) > 1:
        errors.append("MISMATCH")
    return RasCommunicator(
        comm=text(known.get("hash"), 60),
        size=integer(known.get("size")) or len(present) + len(missing),
        ranks=sorted([*present, *missing]),
        status=",".join(sorted({rank.state.upper() for rank in present})),
        errors=",".join(errors) or "OK",
    )


def _present(known: Loose) -> RasRank:
    status = mapping(known.get("status"))
    state = "running"
    for flag, word in (("abort_flag", "abort"), ("finalize_called", "finalize"), ("destroy_flag", "finalize")):
        if status.get(flag) is True:
            state = word
            break
    else:
        if integer(status.get("init_state")):
            state = "init"
    counts = {
        text(op, 60): number
        for op, count in list(mapping(known.get("collective_counts")).items())[:64]
        if (number := integer(count)) is not None
    }
    return _rank(known, state, integer(status.get("async_error")) or 0, counts)


def _absent(known: Loose) -> RasRank:
    status = mapping(known.get("status"))
    dead, silent = status.get("considered_dead") is True, status.get("unresponsive") is True
    return _rank(known, "dead" if dead else "unresponsive" if silent else "missing", 0, {})


def _rank(known: Loose, state: str, async_error: int, counts: dict[str, int]) -> RasRank:
    rank, pid = integer(known.get("rank")), integer(known.get("pid"))
    return RasRank(
        rank=-1 if rank is None else rank,
        host=text(known.get("host"), 200),
        pid=pid or 0,
        state=state,
        async_error=async_error,
        counts=counts,
    )
