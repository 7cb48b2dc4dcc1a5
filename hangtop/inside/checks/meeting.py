"""Ranks of a group meet for a check at the job's store, so that absent ranks are named and block no other rank.

The lowest rank of the group leads. In each round, every rank puts its answer into the store; the leader reads all
answers and either asks for more or concludes. All ranks get the same conclusion. If the leader does not come, the other
ranks name it at the deadline.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from types import FrameType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from hangtop.inside.checks.store_queries import StoreQueries, Unreachable
from hangtop.inside.distributed import distributed_now
from hangtop.inside.results import CheckResult, Noted, publish

GRACE = 2.0
"""Seconds after the deadline for which the others wait for the leader's answer."""
NAMED = 8
"""Most absent ranks whose last place is reported."""
ROUNDS = 4

Calls = TypeVar("Calls", bound=Callable[..., CheckResult])
Said = Dict[str, Any]
"""Answer or request of one rank in one round; JSON."""


class More(NamedTuple):
    """The leader asks every rank for more."""

    request: Said


class Conclusion(NamedTuple):
    """The conclusion of the leader."""

    summary: str
    findings: Sequence[Noted] = ()


Judge = Callable[[int, Dict[int, Said]], Union[More, Conclusion]]
"""Function of the number of the round and the answers by rank; only the leader calls it."""


class MeetingGroup(NamedTuple):
    """The ranks that meet."""

    ranks: Tuple[int, ...]
    """Global ranks, in order."""
    me: int

    @property
    def leads(self) -> bool:
        """Whether this rank leads."""
        return self.me == self.ranks[0]


class NotMember(Exception):
    """This rank is not in the group: as with torch's collectives, the call does nothing here."""


_counts: Dict[Tuple[str, Tuple[int, ...]], int] = {}
"""Number of calls of each check among the same ranks, equal on all ranks, so that calls match."""


def group_of(group: Any = None) -> MeetingGroup:
    """Global ranks of a process group, or of the job; raises :class:`Unreachable` without a process group."""
    distributed = distributed_now()
    if distributed is None:
        raise Unreachable("there is no process group: call it after init_process_group()")
    me = distributed.get_rank()
    if group is None:
        return MeetingGroup(tuple(range(distributed.get_world_size())), me)
    member = group is not distributed.GroupMember.NON_GROUP_MEMBER  # new_group() returns it to other ranks
    ranks = tuple(sorted(distributed.get_process_group_ranks(group))) if member else ()
    if me not in ranks:
        raise NotMember("rank %d is not in this group, and takes no part" % me)
    return MeetingGroup(ranks, me)


def store_of_job() -> Any:
    """The store of the job's default process group, on its own connection if the store can be cloned."""
    from torch.distributed import distributed_c10d as c10d

    store = c10d._get_default_store()  # noqa: SLF001 - torch has no public way to it
    try:
        return store.clone()
    except (AttributeError, RuntimeError, NotImplementedError):
        return store  # this store or this torch cannot clone


def confer(check: str, group: MeetingGroup, seconds: float, say: Callable[[Said], Said], judge: Judge) -> CheckResult:
    """Meet, round by round, publish the leader's conclusion and return it.

    ``say`` gives the answer of this rank: first to an empty request, then to the leader's requests. If ``say`` fails,
    the answer is the error, and no rank waits.
    """
    began = time.monotonic()
    key = check, group.ranks
    _counts[key] = _counts.get(key, 0) + 1
    meeting = Meeting(check, group, began + seconds)
    try:
        conclusion = meeting.run(say, judge)
    except Unreachable as error:
        conclusion = Conclusion(str(error), [Noted("check_incomplete", "warning", "check %s: %s" % (check, error))])
    took = round(time.monotonic() - began, 3)
    result = CheckResult(check, group.ranks, conclusion.summary, conclusion.findings, took)
    return publish(result, speaks=group.leads)


class Meeting:
    """One check among one group."""

    def __init__(self, check: str, group: MeetingGroup, until: float) -> None:
        self.check = check
        self.group = group
        self.until = until
        self.store = StoreQueries(store_of_job(), until + 2 * GRACE)
        ranks = "%d-%d-%08x" % (group.ranks[0], len(group.ranks), hash(group.ranks) & 0xFFFFFFFF)
        self._at = "hangtop/%s/%s/%d" % (check, ranks, _counts[check, group.ranks])

    def run(self, say: Callable[[Said], Said], judge: Judge) -> Conclusion:
        """Go through the rounds."""
        where = place_in_code()
        request: Said = {}
        for round_ in range(ROUNDS):
            said = {"where": where, **_part(say, request)}
            self.store.set(self._key(round_, self.group.me), json.dumps(said).encode())
            if round_ == 0:
                self.store.set("hangtop/last/%d" % self.group.me, json.dumps([self.check, where]).encode())
            word = self._lead(round_, judge) if self.group.leads else self._follow(round_)
            if isinstance(word, Conclusion):
                return word
            request = word.request
        return Conclusion("gave up after %d rounds" % ROUNDS)

    def _key(self, round_: int, rank: int) -> str:
        return "%s/%d/%d" % (self._at, round_, rank)

    def _lead(self, round_: int, judge: Judge) -> Union[More, Conclusion]:
        ranks = self.group.ranks
        all_came = self.store.wait([self._key(round_, rank) for rank in ranks], self.until)
        came = [rank for rank in ranks if all_came or self.store.present([self._key(round_, rank)])]
        told = {rank: json.loads(self.store.get(self._key(round_, rank))) for rank in came}
        rows = {rank: row for rank, row in told.items() if row is not None}  # None: the rank gave up
        word = self._word(round_, rows, judge)
        absent = [rank for rank in ranks if rank not in rows]
        if absent:
            rest = word if isinstance(word, Conclusion) else Conclusion("could not be finished")
            word = Conclusion("%s; %s" % (_absence_text(absent), rest.summary), [self._absence(absent), *rest.findings])
        self.store.set("%s/%d/word" % (self._at, round_), _encoded(word))
        self.store.delete(self._key(round_, rank) for rank in came)
        return word

    def _word(self, round_: int, rows: Dict[int, Said], judge: Judge) -> Union[More, Conclusion]:
        failed = {rank: row["failed"] for rank, row in rows.items() if "failed" in row}
        if failed:
            return self._failure(failed)
        places = {rank: row["where"] for rank, row in rows.items()}
        if round_ == 0 and self.check != "barrier" and len(set(places.values())) > 1:
            summary = "check %s: its ranks call it at different lines, so nothing was compared" % self.check
            advice = "Look at the condition around the first of these lines: all ranks must come to one check."
            return Conclusion(
                summary, [Noted("check_incomplete", "warning", summary, (), _by_text(places), advice)]
            )  # contents may differ between lines
        try:
            return judge(round_, {rank: row["said"] for rank, row in rows.items()})
        except Exception as error:  # noqa: BLE001 - it must not reach the job: all others wait for an answer
            return self._failure({self.group.me: "judging: %s" % _error_text(error)})

    def _follow(self, round_: int) -> Union[More, Conclusion]:
        word = "%s/%d/word" % (self._at, round_)
        if self.store.wait([word], self.until + GRACE):
            return _decoded(self.store.get(word))
        absent = [rank for rank in self.group.ranks if not self.store.present([self._key(round_, rank)])]
        absent = absent or [self.group.ranks[0]]  # the leader came, and did not conclude
        # a late leader must not use this rank's earlier answer
        self.store.set(self._key(round_, self.group.me), b"null")
        return Conclusion(_absence_text(absent), [self._absence(absent)])

    def _failure(self, failed: Dict[int, str]) -> Conclusion:
        """Conclusion for ranks that came, but failed to answer."""
        ranks = list(failed)
        on = "" if len(ranks) == len(self.group.ranks) else " on %s" % ranks_text(ranks)
        summary = "check %s could not be made%s: %s" % (self.check, on, failed[ranks[0]])
        return Conclusion(
            summary, [Noted("check_incomplete", "warning", summary, ranks, _by_text(failed) if on else ())]
        )

    def _absence(self, absent: List[int]) -> Noted:
        lines = []
        for rank in absent[:NAMED]:
            key = "hangtop/last/%d" % rank
            if self.store.present([key]):
                check, where = json.loads(self.store.get(key))
                lines.append("rank %d was last seen in check %s at %s" % (rank, check, where))
            else:
                lines.append("rank %d has come to no check so far" % rank)
        return Noted(
            "check_incomplete", "warning", "check %s at %s: %s" % (self.check, place_in_code(), _absence_text(absent)),
            absent, lines, "Look at the stacks of these ranks: all ranks of a group must reach a check, or none.",
        )  # fmt: skip


def harmless(check: str) -> Callable[[Calls], Calls]:
    """Decorator of functions for scripts: an error becomes the result and is not raised."""

    def around(call: Calls) -> Calls:
        @functools.wraps(call)
        def safe(*arguments: Any, **named: Any) -> CheckResult:
            try:
                return call(*arguments, **named)
            except NotMember as outside:
                return CheckResult(check, (), str(outside))
            except Exception as error:  # noqa: BLE001 - it must not reach the job
                why = str(error) if isinstance(error, Unreachable) else _error_text(error)
                summary = "check %s could not be made: %s" % (check, why)
                return publish(
                    CheckResult(check, (), summary, [Noted("check_incomplete", "warning", summary)]), speaks=True
                )

        return safe  # type: ignore[return-value]

    return around


@harmless("barrier")
def barrier(seconds: float = 60.0, *, group: Any = None) -> CheckResult:
    """Wait for all ranks of ``group`` (default: of the job), at most ``seconds``. The result is true if all came.

    Ranks meet at the job's store, so that no rank is left waiting if others do not come.
    """
    members = group_of(group)
    return confer("barrier", members, seconds, dict, lambda _, said: Conclusion("%d ranks came" % len(said)))


def _part(say: Callable[[Said], Said], request: Said) -> Said:
    try:
        return {"said": say(request)}
    except Exception as error:  # noqa: BLE001 - it must not reach the job, and the others need the reason
        return {"failed": _error_text(error)}


def _error_text(error: Exception) -> str:
    return "%s: %s" % (type(error).__name__, str(error).split("\n")[0][:300])


def _by_text(told: Dict[int, str]) -> List[str]:
    """``ranks 0-2: train.py:88``, one line per text."""
    return ["%s: %s" % (ranks_text([rank for rank, text in told.items() if text == one]), one)
            for one in sorted(set(told.values()))]  # fmt: skip


def _absence_text(absent: List[int]) -> str:
    return "%s did not come in time" % ranks_text(absent)


def _encoded(word: Union[More, Conclusion]) -> bytes:
    if isinstance(word, More):
        return json.dumps({"more": word.request}).encode()
    return json.dumps({"summary": word.summary, "findings": [finding.row() for finding in word.findings]}).encode()


def _decoded(data: bytes) -> Union[More, Conclusion]:
    word = json.loads(data)
    if "more" in word:
        return More(word["more"])
    return Conclusion(word["summary"], [Noted(**row) for row in word["findings"]])


def place_in_code() -> str:
    """``train.py:88``: the innermost line outside of hangtop.inside and torch."""
    frame: Optional[FrameType] = sys._getframe(1)  # noqa: SLF001 - the documented way to one's own frames
    while frame is not None:
        file = frame.f_code.co_filename
        if not any(part in file for part in ("/hangtop/inside/", "/torch/", "contextlib.py", "<frozen")):
            return "%s:%d" % (os.path.basename(file), frame.f_lineno)
        frame = frame.f_back
    return "?"


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0-2,5``."""
    parts: List[str] = []
    ordered = sorted(set(ranks))
    start = 0
    for place, rank in enumerate(ordered):
        if place + 1 < len(ordered) and ordered[place + 1] == rank + 1:
            continue
        parts.append(str(rank) if ordered[start] == rank else "%d-%d" % (ordered[start], rank))
        start = place + 1
    return ("rank " if len(ordered) == 1 else "ranks ") + ",".join(parts)
