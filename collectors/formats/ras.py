"""Reports of NCCL's RAS socket, 2.24 to 2.30, as text (`VERBOSE STATUS`) and as JSON (2.28.7 and later).

The text names only ranks that are in a minority. Where all others fell into one group, they are listed here too, with
that group's figure, host and pid unknown. 2.28.7 to 2.28.9 write invalid JSON whenever ranks are missing: a comma is
absent after ``nvml_dev``; it is put back.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from collectors.formats import BadFormat
from collectors.formats.loose import Loose, integer, items, mapping, text
from collectors.samples.collectives import RasCommunicator, RasRank, RasReport

RANKS = 65_536
"""Ranks of one communicator that are listed at most."""

_MISSING_COMMA = re.compile(r'("nvml_dev": -?\d+)(\s*\n\s*"status")')
_VERSION = re.compile(r"NCCL version (\d+\.\d+(?:\.\d+)*)")
_TOOK = re.compile(r"^Communicators\.\.\. \((\d+(?:\.\d+)?)s\)", re.MULTILINE)
_ROW = re.compile(
    r"^\s+(?P<group>\d+)\s+(?P<comms>\d+)\s+[\d-]+\s+[\d-]+\s+(?P<size>\d+)(?:-(?P<most>\d+))?\s+\d+\s+"
    r"(?P<status>[A-Z,]+)\s+(?P<errors>[A-Z,]+)\s*$",
    re.MULTILINE,
)
_BLOCK = re.compile(r"^#(?P<group>\d+)-(?P<number>\d+) \((?P<hash>[0-9a-f]+)\) (?P<errors>[A-Z, ]+?)\s*$")
_OPERATION = re.compile(r"different (?:(\w+) operation|collective operation) counts")
_LAUNCHED = re.compile(r"^\s+(\d+) ranks? (?:have|has) launched up to operation (\d+)")
_STATUS = re.compile(r"^\s+(\d+) ranks? (?:have|has) status (\w+)")
_NO_LAUNCH = re.compile(r"^\s+(\d+) ranks? (?:have|has) not launched any operations?")
_RANK = re.compile(
    r"^\s+Rank (?P<rank>\d+) -- GPU (?P<gpu>\d+)[^\n]*? managed by process (?P<pid>\d+) on node (?P<host>\S+)"
)
_MISSING = re.compile(r"^\s+The missing ranks?: ([\d, ]+)")
_PROCESS = re.compile(r"^\s+Process (\d+) on node (\S+)")
_ERROR = re.compile(r"^\s+(\d+) ranks? (?:have|has|reported) .*?(?:async|error)", re.IGNORECASE)


def parse(report: str, *, node: str, at: float) -> RasReport:
    """The report in an answer of the socket; ``at`` is when it was given, unless it says so itself.

    Raises :class:`BadFormat` when it is none.
    """
    start = report.find("{")
    if start >= 0 and '"communicators"' in report:
        return _from_json(report[start:], node, at)
    if "Communicators..." not in report:
        raise BadFormat("no RAS report: it lists no communicators")
    return _Text(report, node, at).report()


def looks_like(head: str) -> bool:
    """Whether a text that begins so may be a report."""
    return ("Communicators..." in head and "Job summary" in head) or (
        '"communicators_count"' in head and '"nccl_version"' in head
    )


def _from_json(report: str, node: str, at: float) -> RasReport:
    end = report.rfind("}") + 1
    try:
        document = json.loads(_MISSING_COMMA.sub(r"\1,\2", report[:end]))
    except (ValueError, RecursionError) as error:
        raise BadFormat(f"a RAS report in damaged JSON: {error}") from error
    known = mapping(document)
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
        cuda_device=integer(known.get("cuda_dev")),
        state=state,
        async_error=async_error,
        counts=counts,
    )


@dataclass(slots=True)
class _Members:
    """Ranks with one property in a block, those that are listed and how many there are."""

    count: int
    state: str
    counts: dict[str, int]
    listed: list[RasRank] = field(default_factory=list)


class _Text:
    """The text form, read line by line."""

    def __init__(self, report: str, node: str, at: float) -> None:
        self._lines = report.splitlines()
        self._node, self._at = node, at
        version, took = _VERSION.search(report), _TOOK.search(report)
        self._version = version.group(1) if version else ""
        self._took = float(took.group(1)) if took else 0.0
        self._rows = {int(row.group("group")): row for row in _ROW.finditer(report)}
        self._dead: list[str] = []
        self._blocks: dict[tuple[int, int], RasCommunicator] = {}

    def report(self) -> RasReport:
        """The report."""
        for begin, end in self._sections():
            self._section(self._lines[begin:end])
        communicators = list(self._blocks.values())
        named = {group for group, _ in self._blocks}
        communicators += [
            RasCommunicator("", int(row.group("size")), [], row.group("status"), row.group("errors"))
            for group, row in self._rows.items()
            if group not in named
        ]
        complete = not any("INCOMPLETE" in c.errors for c in communicators) and "TIMEOUT" not in self._lines
        return RasReport(self._at, self._node, self._version, communicators, self._dead, complete, self._took)

    def _sections(self) -> Iterator[tuple[int, int]]:
        """Blocks of lines that a line without indentation begins."""
        begins = [index for index, line in enumerate(self._lines) if line[:1].strip()]
        yield from zip(begins, [*begins[1:], len(self._lines)], strict=True)

    def _section(self, lines: list[str]) -> None:
        head = _BLOCK.match(lines[0])
        if head is not None:
            self._block(head, lines[1:])
        elif lines[0].strip() == "DEAD":
            self._dead += [f"{m.group(2)} pid {m.group(1)}" for m in map(_PROCESS.match, lines[1:]) if m]

    def _block(self, head: re.Match[str], lines: list[str]) -> None:
        key = int(head.group("group")), int(head.group("number"))
        row = self._rows.get(key[0])
        size = int(row.group("size")) if row is not None else 0
        before = self._blocks.get(key)
        ranks = {rank.rank: rank for rank in (before.ranks if before else ())}
        for rank in _told(lines, size, {rank.rank for rank in ranks.values() if rank.state == "missing"}):
            known = ranks.get(rank.rank)
            # one rank stands in several blocks when several operations differ
            ranks[rank.rank] = rank if known is None else known._replace(counts={**known.counts, **rank.counts})
        errors = {*(before.errors.split(",") if before else ()), *head.group("errors").replace(" ", "").split(",")}
        self._blocks[key] = RasCommunicator(
            comm="0x" + head.group("hash"),
            size=size or len(ranks),
            ranks=sorted(ranks.values()),
            status=row.group("status") if row is not None else "",
            errors=",".join(sorted(errors)),
        )


def _told(lines: list[str], size: int, absent: set[int]) -> list[RasRank]:
    """Ranks that a block lists, and those that it only counts where there is one group of them."""
    op, groups, current = "", [], None
    for line in lines:
        operation, launched, status, none = (p.search(line) for p in (_OPERATION, _LAUNCHED, _STATUS, _NO_LAUNCH))
        if operation:
            op = operation.group(1) or ""
        if launched:
            current = _Members(int(launched.group(1)), "running", {op: int(launched.group(2))})
        elif none:
            current = _Members(int(none.group(1)), "running", {op: 0})
        elif status:
            current = _Members(int(status.group(1)), status.group(2).lower(), {})
        missing = _MISSING.match(line)
        if missing:
            groups.append(_Members(0, "missing", {}, [_named(n) for n in re.findall(r"\d{1,8}", missing.group(1))]))
        if launched or none or status:
            assert current is not None
            groups.append(current)
        rank = _RANK.match(line)
        if rank is None:
            continue
        if current is None:
            current = _Members(0, "missing", {})
            groups.append(current)
        current.listed.append(_named(rank.group("rank"), rank, current))
    return _with_majority(groups, size, absent)


def _named(number: str, match: re.Match[str] | None = None, of: _Members | None = None) -> RasRank:
    return RasRank(
        rank=int(number[:8]),
        host=match.group("host") if match else "",
        pid=int(match.group("pid")[:10]) if match else 0,
        cuda_device=int(match.group("gpu")[:4]) if match else None,
        state=of.state if of else "missing",
        async_error=0,
        counts=dict(of.counts) if of else {},
    )


def _with_majority(groups: list[_Members], size: int, absent: set[int]) -> list[RasRank]:
    listed = [rank for group in groups for rank in group.listed]
    unlisted = [group for group in groups if group.count and not group.listed]
    taken = {rank.rank for rank in listed} | absent
    if len(unlisted) == 1 and 0 < size <= RANKS and size - len(taken) == unlisted[0].count:
        of = unlisted[0]
        listed += [_named(str(number), None, of) for number in range(size) if number not in taken]
    return listed
