"""Reports of NCCL's RAS socket, 2.24 to 2.32: how many operations each rank of a communicator has launched.

Formats: text (``VERBOSE STATUS``, ``src/ras/client_support.cc`` of NCCL) and JSON (2.28.7 and later). 2.28.7 to 2.28.9
write invalid JSON if ranks are missing, without a comma after ``nvml_dev``; the comma is restored.
"""

from __future__ import annotations

import re
import time
from itertools import pairwise
from textwrap import dedent
from typing import NamedTuple

from collectors.formats import BadFormat
from collectors.formats.loose import Loose, document, integer, items, mapping, text
from collectors.samples.collectives import RasCommunicator, RasRank, RasReport

RANKS = 65_536
"""Most ranks of one communicator that are listed."""
_MISSING_COMMA = re.compile(r'("nvml_dev": -?\d{1,9})(\s{1,200}"status")')


def parse(report: str, *, at: float) -> RasReport:
    """Parse an answer of the socket; ``at``: time of the answer, if the report has no time stamp.

    Raises :class:`BadFormat` if the answer is no report.
    """
    start = report.find("{")
    if start >= 0 and '"communicators"' in report:
        whole = _MISSING_COMMA.sub(r"\1,\2", report[start : report.rfind("}") + 1])
        known = mapping(document(whole.encode("utf-8", "replace")))
        listed = [_communicator(mapping(each)) for each in items(known.get("communicators"), 100_000)]
        return RasReport(_stamp(text(known.get("timestamp"))) or at, listed)
    if "Communicators..." not in report:
        raise BadFormat("no RAS report: it lists no communicators")
    return RasReport(at, _from_text(dedent(report.expandtabs())))  # pasted text may be indented


def looks_like(head: str) -> bool:
    """Whether a text with this beginning may be a report."""
    return ("Communicators..." in head and "Job summary" in head) or (
        '"communicators_count"' in head and '"nccl_version"' in head
    )


def _stamp(value: str) -> float | None:
    try:
        return time.mktime(time.strptime(value, "%Y-%m-%d %H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def _communicator(known: Loose) -> RasCommunicator:
    present = [mapping(rank) for rank in items(known.get("ranks"), RANKS)]
    missing = [mapping(rank) for rank in items(known.get("missing_ranks"), RANKS)]
    statuses = [mapping(rank.get("status")) for rank in present]
    ranks = sorted(_rank(each) for each in [*present, *missing])
    counts = {tuple(sorted(rank.counts.items())) for rank in ranks}
    alike = all(status == statuses[0] for status in statuses) and len(counts) < 2
    failed = any(integer(status.get("async_error")) for status in statuses)
    size = integer(known.get("size")) or len(ranks)
    return RasCommunicator(text(known.get("hash"), 60), size, ranks, ok=alike and not failed and not missing)


def _rank(known: Loose) -> RasRank:
    rank = integer(known.get("rank"))
    counts = {
        text(op, 60): number
        for op, count in list(mapping(known.get("collective_counts")).items())[:64]
        if (number := integer(count)) is not None
    }
    return RasRank(-1 if rank is None else rank, text(known.get("host"), 200), integer(known.get("pid")) or 0, counts)


# --- the text ----------------------------------------------------------------------------------------------------

_ROW = re.compile(
    r"^[ \t]{1,40}(?P<group>\d{1,9})[ \t]{1,40}\d{1,9}[ \t]{1,40}[\d-]{1,20}[ \t]{1,40}[\d-]{1,20}"
    r"[ \t]{1,40}(?P<size>\d{1,9})(?:-\d{1,9})?[ \t]{1,40}\d{1,9}[ \t]{1,40}"
    r"[A-Z,]{1,200}[ \t]{1,40}(?P<errors>[A-Z,]{1,200})[ \t]{0,40}\r?$",
    re.MULTILINE,
)
_BLOCK = re.compile(r"^#(?P<group>\d{1,9})-\d{1,9} \((?P<hash>[0-9a-f]{1,40})\) [A-Z, ]{1,200}$")
_OPERATION = re.compile(r"Communicator ranks have different (?:(\w{1,60}) operation)?")
"""First line of a paragraph about the counts of one operation, or about another difference."""
_MISSING = re.compile(r"^\s{1,80}The missing ranks?: ([\d, ]+)")
_LAUNCHED = re.compile(
    r"^\s{1,80}(?:(?P<count>\d{1,8}) ranks?|Rank (?P<rank>\d{1,8})) (?:have|has) "
    r"(?:launched up to operation (?P<launched>\d{1,18})|not launched any operations?)"
)
"""Count of one rank, or of several ranks, which the following lines list."""
_RANK = re.compile(r"^\s{1,80}Rank (\d{1,8})\b")
_PROCESS = re.compile(r" managed by process (\d{1,10}) on node (\S{1,255})")


class _Group(NamedTuple):
    """Ranks with the same count of one operation: their number, the count, and the ranks that are listed."""

    size: int
    launched: int
    listed: list[int]


def _from_text(report: str) -> list[RasCommunicator]:
    """The communicators of a text report, which lists only ranks in a minority."""
    lines = report.splitlines()
    rows = {row["group"]: row for row in _ROW.finditer(report)}
    blocks: dict[str, tuple[str, list[str]]] = {}
    for begin, end in pairwise([*(place for place, line in enumerate(lines) if line[:1].strip()), len(lines)]):
        head = _BLOCK.match(lines[begin])
        if head is not None:  # a communicator may have a block of errors and a block of warnings
            blocks.setdefault(head["hash"], (head["group"], []))[1].extend(lines[begin + 1 : end])
    found = []
    for name, (group, body) in blocks.items():
        size = int(rows[group]["size"]) if group in rows else 0
        ranks = _ranks(body, size)
        found.append(RasCommunicator("0x" + name, size or len(ranks), ranks, ok=False))
    troubled = {group for group, _ in blocks.values()}
    well = [row for group, row in rows.items() if group not in troubled]
    return [*found, *(RasCommunicator("", int(row["size"]), [], row["errors"] == "OK") for row in well)]


def _ranks(lines: list[str], size: int) -> list[RasRank]:
    """The ranks of one communicator with the counts from its paragraphs; missing ranks have no counts."""
    counts: dict[int, dict[str, int]] = {}
    processes: dict[int, tuple[str, int]] = {}
    missing: list[int] = []
    groups: dict[str, list[_Group]] = {"": []}
    of_operation = groups[""]
    for line in lines:
        rank, launched, process = _RANK.match(line), _LAUNCHED.match(line), _PROCESS.search(line)
        if heading := _OPERATION.search(line):
            of_operation = groups.setdefault(heading[1] or "", [])
        elif absent := _MISSING.match(line):
            missing += [int(number) for number in re.findall(r"\d{1,8}", absent[1])]
        elif launched is not None:
            listed = [int(launched["rank"])] if launched["rank"] else []
            of_operation.append(_Group(int(launched["count"] or 1), int(launched["launched"] or 0), listed))
        elif rank is not None and of_operation:
            of_operation[-1].listed.append(int(rank[1]))
        if rank is not None and process is not None:
            processes[int(rank[1])] = process[2], int(process[1])
    for op, several in groups.items():
        taken = {rank for group in several for rank in group.listed} | {*missing}
        for group in several:
            others = range(size if size <= RANKS and size - len(taken) == group.size and not group.listed else 0)
            for known in (*group.listed, *(rank for rank in others if rank not in taken)):
                counts.setdefault(known, {})[op] = group.launched
    return sorted(RasRank(rank, *processes.get(rank, ("", 0)), counts.get(rank, {})) for rank in {*missing, *counts})
