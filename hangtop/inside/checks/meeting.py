"""Where the ranks of a group meet for a check: at the job's store, so that who does not come is named, not waited for.

The lowest rank of the group leads. Each round every rank leaves what it has to say, the leader reads all of it and
either asks for more or concludes; the conclusion is the same for all. Where the leader itself does not come, the others
name it by themselves once the time is up.
"""

from __future__ import annotations

import functools
import json
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from hangtop.inside.checks.store_queries import StoreQueries, Unreachable
from hangtop.inside.checks.whereabouts import place_in_code, position, ranks_text
from hangtop.inside.checks.words import Conclusion, Judge, More, Said, decoded, encoded
from hangtop.inside.own_rank import distributed_now
from hangtop.inside.results import CheckResult, Noted, publish

GRACE = 2.0
"""Seconds beyond the deadline in which the others wait for the leader's word."""
NAMED = 8
"""Absent ranks of whom it is said where they were."""
ROUNDS = 16
GONE = None
"""Lies in the place of what a rank had said, once its time is up."""

Calls = TypeVar("Calls", bound=Callable[..., CheckResult])


class MeetingGroup(NamedTuple):
    """The ranks that meet."""

    ranks: Tuple[int, ...]
    """Global, in order."""
    me: int

    @property
    def leader(self) -> int:
        """Who leads."""
        return self.ranks[0]


class Outside(Exception):
    """A check among ranks of whom this one is none: as torch's collectives, it does nothing here."""


_counts: Dict[Tuple[str, Tuple[int, ...]], int] = {}


def group_of(group: Any = None) -> MeetingGroup:
    """Global ranks of a process group of the job, or of all; raises :class:`Unreachable` where there is none."""
    distributed = distributed_now()
    if distributed is None:
        raise Unreachable("there is no process group: call it after init_process_group()")
    me = distributed.get_rank()
    if group is None:
        return MeetingGroup(tuple(range(distributed.get_world_size())), me)
    if group is distributed.GroupMember.NON_GROUP_MEMBER:  # what new_group() gives to whoever is not in it
        raise Outside("rank %d is not in this group, and takes no part" % me)
    ranks = tuple(sorted(distributed.get_process_group_ranks(group)))
    if me not in ranks:
        raise Outside("rank %d is not in this group, and takes no part" % me)
    return MeetingGroup(ranks, me)


def store_of_job() -> Any:
    """The store with which the job's process group began, on a connection of our own where it can have several."""
    from torch.distributed import distributed_c10d as c10d

    store = c10d._get_default_store()  # noqa: SLF001 - torch has no public way to it
    clone = getattr(store, "clone", None)
    if clone is None:
        return store
    try:
        return clone()
    except (RuntimeError, NotImplementedError):
        return store  # of a kind that cannot


def confer(
    check: str,
    group: MeetingGroup,
    seconds: float,
    first: Callable[[], Said],
    judge: Judge,
    reply: Optional[Callable[[Said], Said]] = None,
    number: int = 0,
) -> CheckResult:
    """Meet, round by round, and give what the leader concluded; it is published, too.

    ``first`` gives what this rank says in the first round, ``reply`` makes of a request what it says in the next; a
    rank on which they fail says so, and nobody waits for it.
    ``number`` is that of a question from outside, by which its ranks find one another; in code the calls are counted.
    """
    began = time.monotonic()
    if not number:
        key = check, group.ranks
        _counts[key] = _counts.get(key, 0) + 1
    meeting = Meeting(check, group, began + seconds, number)
    try:
        conclusion = meeting.run(first, judge, reply)
    except Unreachable as error:
        conclusion = Conclusion(str(error), [Noted("check_incomplete", "warning", "check %s: %s" % (check, error))])
    finally:
        meeting.store.close()
    result = CheckResult(
        check, group.ranks, conclusion.summary, conclusion.findings, round(time.monotonic() - began, 3), number
    )
    return publish(result, speaks=group.me == group.leader)


def excused(check: str, group: MeetingGroup, seconds: float, why: str, number: int) -> CheckResult:
    """Leave word that this rank does not make a check that was asked from outside, and go on; all get one result."""
    meeting = Meeting(check, group, time.monotonic() + seconds, number, grace=0.0)
    try:
        conclusion = meeting.decline(why)
    finally:
        meeting.store.close()
    result = CheckResult(check, group.ranks, conclusion.summary, conclusion.findings, 0.0, number)
    return publish(result, speaks=group.me == group.leader)


class Meeting:
    """One check among one group."""

    def __init__(self, check: str, group: MeetingGroup, until: float, number: int, *, grace: float = GRACE) -> None:
        self.check = check
        self.group = group
        self.until = until
        self._asked = bool(number)
        """From outside: the place is that of whatever ended the step."""
        self.store = StoreQueries(store_of_job(), until + 2 * grace)
        count = "asked%d" % number if number else "%d" % _counts[check, group.ranks]
        ranks = "%d-%d-%08x" % (group.ranks[0], len(group.ranks), _mixed(group.ranks))
        self._at = "hangtop/%s/%s/%s" % (check, ranks, count)

    def run(self, first: Callable[[], Said], judge: Judge, reply: Optional[Callable[[Said], Said]]) -> Conclusion:
        """Go through the rounds."""
        where = place_in_code()
        said = {"where": where, **position(), **_saying(first)}
        for round_ in range(ROUNDS):
            self.store.set(self._key(round_, self.group.me), json.dumps(said).encode())
            if round_ == 0:
                self.store.set("hangtop/last/%d" % self.group.me, json.dumps([self.check, where]).encode())
            word = self._lead(round_, judge) if self.group.me == self.group.leader else self._follow(round_)
            if isinstance(word, Conclusion):
                return word
            said = _saying(functools.partial(reply or _nothing, word.request))
        return Conclusion("gave up after %d rounds" % ROUNDS)

    def decline(self, why: str) -> Conclusion:
        """Leave word of why this rank says nothing; where it leads, that concludes for all."""
        said = {"where": "?", **position(), "failed": why}
        self.store.set(self._key(0, self.group.me), json.dumps(said).encode())
        conclusion = self._failure({self.group.me: why})
        if self.group.me == self.group.leader:
            self.store.set("%s/0/word" % self._at, encoded(conclusion))
        return conclusion

    def _key(self, round_: int, rank: int) -> str:
        return "%s/%d/%d" % (self._at, round_, rank)

    def _lead(self, round_: int, judge: Judge) -> Union[More, Conclusion]:
        keys = [self._key(round_, rank) for rank in self.group.ranks]
        all_came = self.store.wait(keys, self.until)
        came = [rank for rank in self.group.ranks if all_came or self.store.present([self._key(round_, rank)])]
        told = {rank: json.loads(self.store.get(self._key(round_, rank))) for rank in came}
        rows = {rank: row for rank, row in told.items() if row is not GONE}
        failed = {rank: row["failed"] for rank, row in rows.items() if "failed" in row}
        places = {rank: row["where"] for rank, row in rows.items()} if round_ == 0 and not self._asked else {}
        word: Union[More, Conclusion]
        if failed:
            word = self._failure(failed)
        elif len(set(places.values())) > 1 and self.check != "barrier":
            word = self._elsewhere(places)
        else:
            word = self._judged(judge, round_, {rank: row["said"] for rank, row in rows.items()})
        absent = [rank for rank in self.group.ranks if rank not in rows]
        if absent:
            concluded = word if isinstance(word, Conclusion) else Conclusion("could not be finished")
            word = Conclusion(
                "%s; %s" % (_did_not_come(absent), concluded.summary),
                [self._absence(absent, [rank for rank in absent if rank in told]), *concluded.findings],
            )
        self.store.set("%s/%d/word" % (self._at, round_), encoded(word))
        self.store.delete(self._key(round_, rank) for rank in came)
        return word

    def _follow(self, round_: int) -> Union[More, Conclusion]:
        word = "%s/%d/word" % (self._at, round_)
        if self.store.wait([word], self.until + GRACE):
            return decoded(self.store.get(word))
        absent = [rank for rank in self.group.ranks if not self.store.present([self._key(round_, rank)])]
        if not absent:
            absent = [self.group.leader]  # it came, and went no further
        # whoever leads here later, or comes to its next check of this kind, must not take it for an answer
        self.store.set(self._key(round_, self.group.me), json.dumps(GONE).encode())
        return Conclusion(_did_not_come(absent), [self._absence(absent)])

    def _judged(self, judge: Judge, round_: int, said: Dict[int, Said]) -> Union[More, Conclusion]:
        """What the judge says; where it fails, that: all others wait for a word."""
        try:
            return judge(round_, said)
        except Exception as error:  # noqa: BLE001 - it must not reach the job
            return self._failure({self.group.me: "judging: %s" % _told(error)})

    def _failure(self, failed: Dict[int, str]) -> Conclusion:
        """Ranks that came, and could not say what they were to say."""
        ranks = list(failed)
        on = "" if len(ranks) == len(self.group.ranks) else " on %s" % ranks_text(ranks)
        summary = "check %s could not be made%s: %s" % (self.check, on, failed[ranks[0]])
        return Conclusion(
            summary, [Noted("check_incomplete", "warning", summary, ranks, _by_text(failed) if on else ())]
        )

    def _elsewhere(self, places: Dict[int, str]) -> Conclusion:
        """Ranks that make this check at different lines: what they hold there may well differ."""
        lines = _by_text(places)
        summary = "check %s: its ranks make it at different lines, so nothing was compared" % self.check
        advice = "Look at the condition around the first of these lines: all ranks of the group must come to one check."
        return Conclusion(summary, [Noted("check_incomplete", "warning", summary, (), lines, advice)])

    def _absence(self, absent: List[int], gone: Sequence[int] = ()) -> Noted:
        lines = []
        for rank in absent[:NAMED]:
            if rank in gone:
                lines.append("rank %d was here and gave up waiting" % rank)
                continue
            key = "hangtop/last/%d" % rank
            if self.store.present([key]):
                check, where = json.loads(self.store.get(key))
                lines.append("rank %d was last seen in check %s at %s" % (rank, check, where))
            else:
                lines.append("rank %d has come to no check so far" % rank)
        return Noted(
            "check_incomplete", "warning", "check %s at %s: %s" % (self.check, place_in_code(), _did_not_come(absent)),
            absent, lines,
            "Look at where these ranks are (their stacks, their step and phase): a check must be reached by all ranks "
            "of its group, or by none.",
        )  # fmt: skip


def harmless(check: str) -> Callable[[Calls], Calls]:
    """For the functions that a script calls: whatever goes wrong in one becomes its result, and is not raised."""

    def around(call: Calls) -> Calls:
        @functools.wraps(call)
        def safe(*arguments: Any, **named: Any) -> CheckResult:
            try:
                return call(*arguments, **named)
            except Outside as outside:
                return CheckResult(check, (), str(outside))
            except Exception as error:  # noqa: BLE001 - it must not reach the job
                why = str(error) if isinstance(error, Unreachable) else "%s: %s" % (type(error).__name__, error)
                summary = "check %s could not be made: %s" % (check, why.split("\n")[0])
                return publish(
                    CheckResult(check, (), summary, [Noted("check_incomplete", "warning", summary)]), speaks=True
                )

        return safe  # type: ignore[return-value]

    return around


def _nothing(request: Said) -> Said:
    """Who is asked for more and has no more."""
    del request
    return {}


def _saying(say: Callable[[], Said]) -> Said:
    """What is said, or why it cannot be."""
    try:
        return {"said": say()}
    except Exception as error:  # noqa: BLE001 - it must not reach the job, and the others are to hear of it
        return {"failed": _told(error)}


def _told(error: Exception) -> str:
    return "%s: %s" % (type(error).__name__, str(error).split("\n")[0][:300])


def _by_text(told: Dict[int, str]) -> List[str]:
    """``ranks 0-2: train.py:88``, once a text."""
    return ["%s: %s" % (ranks_text([rank for rank, text in told.items() if text == one]), one)
            for one in sorted(set(told.values()))]  # fmt: skip


def _did_not_come(absent: List[int]) -> str:
    return "%s did not come in time" % ranks_text(absent)


def _mixed(ranks: Tuple[int, ...]) -> int:
    mixed = 0
    for rank in ranks:
        mixed = (mixed * 1_000_003 + rank + 1) & 0xFFFFFFFF
    return mixed
