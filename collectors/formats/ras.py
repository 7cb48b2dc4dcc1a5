"""Reports of NCCL's RAS socket, 2.24 to 2.32, as text (`VERBOSE STATUS`) and as JSON (2.28.7 and later).

2.28.7 to 2.28.9 write invalid JSON whenever ranks are missing: a comma is absent after ``nvml_dev``; it is put back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from itertools import pairwise
from textwrap import dedent
from typing import NamedTuple

from collectors.formats import BadFormat
from collectors.formats.loose import Loose, document, integer, items, mapping, text
from collectors.samples.collectives import RasCommunicator, RasRank, RasReport

RANKS = 65_536
"""Ranks of one communicator that are listed at most."""
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
    return _from_text(dedent(report.expandtabs()), node, at)  # as people paste it


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


# --- the text (``src/ras/client_support.cc`` of NCCL) ------------------------------------------------------------

_VERSION = re.compile(r"NCCL version (\d{1,9}\.\d{1,9}(?:\.\d{1,9}){0,3})")
_TOOK = re.compile(r"^Communicators\.\.\. \((\d{1,9}(?:\.\d{1,9})?)s\)", re.MULTILINE)
_ROW = re.compile(
    r"^[ \t]{1,40}(?P<group>\d{1,9})[ \t]{1,40}(?P<comms>\d{1,9})[ \t]{1,40}[\d-]{1,20}[ \t]{1,40}[\d-]{1,20}"
    r"[ \t]{1,40}(?P<size>\d{1,9})(?:-(?P<most>\d{1,9}))?[ \t]{1,40}\d{1,9}[ \t]{1,40}"
    r"(?P<status>[A-Z,]{1,200})[ \t]{1,40}(?P<errors>[A-Z,]{1,200})[ \t]{0,40}\r?$",
    re.MULTILINE,
)
_BLOCK = re.compile(r"^#(?P<group>\d{1,9})-\d{1,9} \((?P<hash>[0-9a-f]{1,40})\) (?P<errors>[A-Z, ]{1,200})$")
_OPERATION = re.compile(r"different (?:(\w{1,60}) operation|collective operation) counts")
_TOLD = re.compile(
    r"^\s{1,80}(?:(?P<count>\d{1,8}) ranks?|Rank (?P<rank>\d{1,8}))"
    r"(?: (?:have|has) (?:launched up to operation (?P<launched>\d{1,18})|not launched (?P<none>any operations?)"
    r"|status (?P<status>\w{1,40}))| reported (?P<error>[^\n]{1,200}?))?"
    r"(?P<place> -- (?:GPU [^\n]{1,200}? managed by process (?P<pid>\d{1,10}) on node (?P<host>\S{1,255})"
    r"|\[process information not found\]))?\s*$"
)
"""What a line says of several ranks, of one, or only which one: it is then of those that the lines before counted."""
_MISSING = re.compile(r"^\s{1,80}The missing ranks?: ([\d, ]+)")
_PROCESS = re.compile(r"^\s{1,80}Process (\d{1,10}) on node (\S{1,255})")


class _Members(NamedTuple):
    """Ranks with one property in a block: how many there are, and those that are listed."""

    size: int
    like: RasRank
    listed: list[RasRank]


def _from_text(report: str, node: str, at: float) -> RasReport:
    """The report in a text that lists communicators.

    It names only ranks that are in a minority. Where all others fell into one group, they are listed here too, with
    that group's figure, host and pid unknown.
    """
    lines = report.splitlines()
    rows = {row.group("group"): row for row in _ROW.finditer(report)}
    blocks: dict[str, RasCommunicator] = {}
    groups, dead = set(), []
    for begin, end in pairwise([*(place for place, line in enumerate(lines) if line[:1].strip()), len(lines)]):
        head, body = _BLOCK.match(lines[begin]), lines[begin + 1 : end]
        if head is not None:
            groups.add(head["group"])
            key = lines[begin].partition(" (")[0]
            blocks[key] = _block(head, body, rows.get(head["group"]), blocks.get(key))
        elif lines[begin].strip() == "DEAD":
            dead += [f"{found[2]} pid {found[1]}" for found in map(_PROCESS.match, body) if found]
    well = [
        RasCommunicator("", int(row["size"]), [], row["status"], row["errors"])
        for group, row in rows.items()
        if group not in groups
    ]
    communicators = [*blocks.values(), *well]
    version, took = _VERSION.search(report), _TOOK.search(report)
    complete = not any("INCOMPLETE" in c.errors for c in communicators) and "TIMEOUT" not in lines
    seconds = float(took[1]) if took else 0.0
    return RasReport(at, node, version[1] if version else "", communicators, dead, complete, seconds)


def _block(
    head: re.Match[str], lines: list[str], row: re.Match[str] | None, before: RasCommunicator | None
) -> RasCommunicator:
    """A communicator's block, joined with what an earlier one said of it."""
    size = int(row["size"]) if row is not None else 0
    ranks = {rank.rank: rank for rank in (before.ranks if before else ())}
    for paragraph in _paragraphs(lines):
        for rank in _ranks_told(paragraph, size, {rank.rank for rank in ranks.values() if rank.state == "missing"}):
            known = ranks.get(rank.rank, rank)  # one rank stands in several paragraphs when several operations differ
            ranks[rank.rank] = (rank if rank.pid and not known.pid else known)._replace(
                counts={**known.counts, **rank.counts},
                state=known.state if known.state != "running" else rank.state,
                async_error=max(known.async_error, rank.async_error),
            )
    errors = {*(before.errors.split(",") if before else ()), *head["errors"].replace(" ", "").split(",")}
    status = row["status"] if row is not None else ""
    return RasCommunicator(
        "0x" + head["hash"], size or len(ranks), sorted(ranks.values()), status, ",".join(sorted(errors))
    )


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    """What a block says of one thing: its status, one operation, one kind of error."""
    own: list[str] = []
    for line in lines:
        if own and (not line.strip() or "Communicator ranks have different" in line):
            yield own
            own = []
        if line.strip():
            own.append(line)
    yield own


def _ranks_told(lines: list[str], size: int, absent: set[int]) -> list[RasRank]:
    """Ranks that a paragraph lists, and those that it only counts where there is one group of them."""
    op, missing = "", RasRank(0, "", 0, "missing", 0, {})
    current = _Members(0, missing, [])
    groups = [current]
    for line in lines:
        if operation := _OPERATION.search(line):
            op = operation[1] or ""
        if named := _MISSING.match(line):
            groups.append(
                _Members(0, missing, [missing._replace(rank=int(n)) for n in re.findall(r"\d{1,8}", named[1])])
            )
        told = _TOLD.match(line)
        if told is None:
            continue
        like = current.like
        if told["launched"] or told["none"]:
            like = RasRank(0, "", 0, "running", 0, {op: int(told["launched"] or 0)})
        elif told["status"] or told["error"]:
            state = told["status"].lower() if told["status"] else "running"
            like = RasRank(0, "", 0, state, int(bool(told["error"])), {})
        if told["count"] and like is not current.like:
            current = _Members(int(told["count"]), like, [])
            groups.append(current)
        elif told["rank"] and told["place"]:
            rank = like._replace(rank=int(told["rank"]), host=told["host"] or "", pid=int(told["pid"] or 0))
            (current if like is current.like else groups[0]).listed.append(rank)
    listed = [rank for group in groups for rank in group.listed]
    rest = [group for group in groups if group.size and not group.listed]
    taken = {rank.rank for rank in listed} | absent
    if len(rest) == 1 and 0 < size <= RANKS and size - len(taken) == rest[0].size:
        listed += [rest[0].like._replace(rank=number) for number in range(size) if number not in taken]
    return listed
