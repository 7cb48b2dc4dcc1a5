"""The text of a RAS report, NCCL 2.24 to 2.32 (``src/ras/client_support.cc``).

It names only ranks that are in a minority; one that is alone has its figure in its own line. Where all others fell into
one group, they are listed here too, with that group's figure, host and pid unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import dedent

from collectors.samples.collectives import RasCommunicator, RasRank, RasReport

RANKS = 65_536
"""Ranks of one communicator that are listed at most."""

_VERSION = re.compile(r"NCCL version (\d{1,9}\.\d{1,9}(?:\.\d{1,9}){0,3})")
_TOOK = re.compile(r"^Communicators\.\.\. \((\d{1,9}(?:\.\d{1,9})?)s\)", re.MULTILINE)
_ROW = re.compile(
    r"^[ \t]{1,40}(?P<group>\d{1,9})[ \t]{1,40}(?P<comms>\d{1,9})[ \t]{1,40}[\d-]{1,20}[ \t]{1,40}[\d-]{1,20}"
    r"[ \t]{1,40}(?P<size>\d{1,9})(?:-(?P<most>\d{1,9}))?[ \t]{1,40}\d{1,9}[ \t]{1,40}"
    r"(?P<status>[A-Z,]{1,200})[ \t]{1,40}(?P<errors>[A-Z,]{1,200})[ \t]{0,40}\r?$",
    re.MULTILINE,
)
_BLOCK = re.compile(
    r"^#(?P<group>\d{1,9})-(?P<number>\d{1,9}) \((?P<hash>[0-9a-f]{1,40})\) (?P<errors>[A-Z, ]{1,200})$"
)
_OPERATION = re.compile(r"different (?:(\w{1,60}) operation|collective operation) counts")
_LAUNCHED = re.compile(r"^\s{1,80}(\d{1,9}) ranks? (?:have|has) launched up to operation (\d{1,18})")
_STATUS = re.compile(r"^\s{1,80}(\d{1,9}) ranks? (?:have|has) status (\w{1,40})")
_NO_LAUNCH = re.compile(r"^\s{1,80}(\d{1,9}) ranks? (?:have|has) not launched any operations?")
_RANK = re.compile(
    r"^\s{1,80}Rank (?P<rank>\d{1,9})(?: has launched up to operation (?P<launched>\d{1,18})"
    r"| (?P<none>has not launched any operations)| has status (?P<status>\w{1,40})"
    r"| reported (?P<error>[^\n]{1,200}?))? -- "
    r"(?:GPU (?P<gpu>\d{1,9})[^\n]{0,200}? managed by process (?P<pid>\d{1,10}) on node (?P<host>\S{1,255})"
    r"|\[process information not found\])"
)
_MISSING = re.compile(r"^\s{1,80}The missing ranks?: ([\d, ]+)")
_PROCESS = re.compile(r"^\s{1,80}Process (\d{1,10}) on node (\S{1,255})")
_ERROR = re.compile(r"^\s{1,80}(\d{1,9}) ranks? reported (?P<error>.+)")


@dataclass(slots=True)
class _Members:
    """Ranks with one property in a block, those that are listed and how many there are."""

    count: int
    state: str
    counts: dict[str, int]
    listed: list[RasRank] = field(default_factory=list)
    failed: bool = False
    """They report an error."""


def read(report: str, node: str, at: float) -> RasReport:
    """The report in a text that lists communicators."""
    return _Text(dedent(report.expandtabs()), node, at).report()  # as people paste it


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
        yield from pairwise([*begins, len(self._lines)])

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
        for paragraph in _paragraphs(lines):
            for rank in _told(paragraph, size, {rank.rank for rank in ranks.values() if rank.state == "missing"}):
                known = ranks.get(rank.rank)
                # one rank stands in several paragraphs when several operations differ
                ranks[rank.rank] = rank if known is None else _joined(known, rank)
        errors = {*(before.errors.split(",") if before else ()), *head.group("errors").replace(" ", "").split(",")}
        self._blocks[key] = RasCommunicator(
            comm="0x" + head.group("hash"),
            size=size or len(ranks),
            ranks=sorted(ranks.values()),
            status=row.group("status") if row is not None else "",
            errors=",".join(sorted(errors)),
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


def _joined(known: RasRank, rank: RasRank) -> RasRank:
    """What two blocks say of one rank; a line that names its process tells more than one that counts it."""
    first = rank if rank.pid and not known.pid else known
    state = known.state if known.state != "running" else rank.state
    errors = max(known.async_error, rank.async_error)
    return first._replace(counts={**known.counts, **rank.counts}, state=state, async_error=errors)


def _told(lines: list[str], size: int, absent: set[int]) -> list[RasRank]:
    """Ranks that a block lists, and those that it only counts where there is one group of them."""
    op = ""
    groups: list[_Members] = []
    current: _Members | None = None
    for line in lines:
        operation, missing, rank = _OPERATION.search(line), _MISSING.match(line), _RANK.match(line)
        if operation:
            op = operation.group(1) or ""
        if missing:
            groups.append(_Members(0, "missing", {}, [_named(n) for n in re.findall(r"\d{1,8}", missing.group(1))]))
        counted = _counted(line, op)
        if counted is not None:
            groups.append(counted)
            current = counted
        if rank is None:
            continue
        own = _alone(rank, op)
        if own is not None:
            groups.append(own)  # it stands beside the groups, and what is listed next is not of it
        elif current is None:
            current = own = _Members(0, "missing", {})
            groups.append(own)
        of = own or current
        assert of is not None
        of.listed.append(_named(rank.group("rank"), rank, of))
    return _with_majority(groups, size, absent)


def _counted(line: str, op: str) -> _Members | None:
    """What a line says of several ranks, those that may be listed after it."""
    launched, none, status, error = (p.search(line) for p in (_LAUNCHED, _NO_LAUNCH, _STATUS, _ERROR))
    if launched:
        return _Members(int(launched.group(1)), "running", {op: int(launched.group(2))})
    if none:
        return _Members(int(none.group(1)), "running", {op: 0})
    if status:
        return _Members(int(status.group(1)), status.group(2).lower(), {})
    return _Members(int(error.group(1)), "running", {}, failed=True) if error else None


def _alone(rank: re.Match[str], op: str) -> _Members | None:
    """What a line says of the one rank that it is about; None where it only lists it."""
    if rank.group("launched") or rank.group("none"):
        return _Members(1, "running", {op: int((rank.group("launched") or "0")[:18])})
    if rank.group("status"):
        return _Members(1, rank.group("status").lower(), {})
    return _Members(1, "running", {}, failed=True) if rank.group("error") else None


def _named(number: str, match: re.Match[str] | None = None, of: _Members | None = None) -> RasRank:
    known = match is not None and match.group("host") is not None
    return RasRank(
        rank=int(number[:8]),
        host=match.group("host") if match and known else "",
        pid=int(match.group("pid")[:10]) if match and known else 0,
        state=of.state if of else "missing",
        async_error=1 if of and of.failed else 0,
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
