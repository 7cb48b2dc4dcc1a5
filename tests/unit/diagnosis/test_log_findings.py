"""What logs of a job that is over prove: events in, the first finding's kind, ranks and words out."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from hangtop.diagnosis.collectives.sources import waits_of
from tests.support.jobs import COMPUTING, READING, Sketch, after, alarms, first


class Event(NamedTuple):
    """One event of a log: of a rank, so many seconds ago."""

    kind: str
    rank: int | None
    ago: float
    data: dict[str, Any]


def say(kind: str, *ranks: int | None, ago: float = 9.0, **data: Any) -> list[Event]:
    """The same of each of these ranks."""
    return [Event(kind, rank, ago, data) for rank in ranks or (None,)]


def raised(rank: int | None, what: str = "ValueError: bad shard", ago: float = 9.0, **data: Any) -> list[Event]:
    kind, _, message = what.partition(": ")
    return say("python.exception", rank, ago=ago, **{"type": kind, "message": message, "signature": "user"} | data)


def lost(*ranks: int, **data: Any) -> list[Event]:
    """Ranks that lost their connections, and raised so."""
    fields: dict[str, Any] = {"type": "RuntimeError", "message": "Connection closed by peer", "signature": "connection"}
    closed = say("gloo.closed", *ranks, ago=8.0, peer="[10.0.0.2]:4000", **data)
    return closed + say("python.exception", *ranks, ago=8.0, **fields, **data)


LATE: dict[str, Any] = {"op": "ALLREDUCE", "seq": 7, "ran_ms": 600_000, "group_name": "default_pg", "source": "job.log"}
SAME: dict[str, Any] = {"rank_b": 1, "shape_a": [4], "shape_b": [4], "differs": ["op"]}


def late(*ranks: int | None, **data: Any) -> list[Event]:
    """Time-outs of the watchdogs of these ranks, in one log."""
    return say("torch.watchdog_timeout", *ranks, **LATE | data)


def status(rank: int, enqueued: int, **data: Any) -> list[Event]:
    fields: dict[str, Any] = {"enqueued": enqueued, "completed": 6, "work": 7, "source": "job.log"}
    return say("torch.watchdog_status", rank, **fields | data)


def failed(rank: int, exitcode: int, ago: float = 6.0, **data: Any) -> list[Event]:
    return say("elastic.failure", None, ago=ago, failed_rank=rank, exitcode=exitcode, **data)


def pair(rank: int, a: str, b: str, **differs: Any) -> list[Event]:
    """A line of torch's DETAIL: what this rank ran, and what the other one did."""
    return say("torch.fingerprint", rank, **SAME | {"rank_a": rank, "op_a": a, "op_b": b} | differs)


def of_group(guid: str, name: str, *ranks: int, silent: int | None = None, **data: Any) -> list[Event]:
    """Time-outs of the ranks of one group, each with its place in it."""
    places = [(place, rank) for place, rank in enumerate(ranks) if rank != silent]
    return [
        event
        for place, rank in places
        for event in late(rank, guid=guid, group_name=name, group_rank=place, numel_in=64, **data)
    ]


NOBODY: tuple[int, ...] = ()

CASES: dict[str, tuple[list[Event], str, tuple[int, ...], str]] = {
    # the first failure
    "the first exception, not the loudest": (
        [*raised(1, "RuntimeError: late", 59), *raised(2, ago=60, frame="a (x.py:1)"), *lost(0, 3)],
        "rank_crashed", (2,), "failed first: ValueError: bad shard at a (x.py:1); 3 others failed afterwards",
    ),
    "the earliest of bare exit codes": (
        [*failed(4, 1, 100, root=True), *failed(0, 1, 49, root=True)], "child_failed_no_detail", (4,), "exit code 1",
    ),
    "a traceback says more than exit codes": ([*failed(0, 1), *failed(2, 1), *raised(2)], "rank_crashed", (2,), "bad"),
    "exit code 137": ([*failed(1, 137, 9), *lost(2, 3)], "rank_killed", (1,), "was killed"),
    "all told to end": (
        [*failed(0, -15), *failed(1, -15), *say("slurm.cancelled", reason="TIME LIMIT")], "rank_killed", NOBODY,
        "time limit",
    ),
    "a launcher that was told to end": (say("elastic.signal", signal="TERM"), "rank_killed", NOBODY, "from outside"),
    "a user's scancel": (say("slurm.cancelled", reason="user"), "rank_killed", NOBODY, "ended by its user"),
    "an exception before a launcher was told to end": (
        [*say("elastic.signal", signal="TERM"), *raised(2, ago=12)], "rank_crashed", (2,), "ValueError",
    ),
    "an error of the program on its GPU, and the abort after it": (
        [*say("torch.cuda_error", 2, error="device-side assert triggered"),
         *say("process.signal", 2, ago=8, signal="ABRT"), *say("nccl.warn", 0, ago=7, signature="connection_closed")],
        "rank_crashed", (2,), "device-side assert",
    ),
    "Ray's word alone that a worker is gone": (
        say("launcher.exit", launcher="ray", reason="The actor died"), "child_failed_no_detail", NOBODY,
        "reported only by its launcher, ray (The actor died)",
    ),
    # by elimination
    "the rank that left no word": (
        [*lost(0, 2, 3), *say("log.end", 1, ago=30)], "rank_killed", (1,), "left no message, and 3 others lost",
    ),
    "half of the ranks may not have been read": (lost(0, 1), "nccl_remote_error", NOBODY, "no message from ranks 2-3"),
    "a rank that torchrun lists neither as failed nor as ended": (
        [*lost(0, 1, 3), *failed(3, 1, root=True, local_rank=1, source="n2.err")], "rank_killed", (2,), "no message",
    ),
    "silence in the one log of a small job": (
        say("gloo.closed", 0, 2, peer="[10.0.0.2]:4000", source="job.out"), "rank_killed", (1,), "left no message",
    ),
    "a rank whose barrier names the rank that did not answer": (
        say("gloo.closed", 3, peer="rank 0"), "nccl_remote_error", NOBODY, "rank 3 lost rank 0",
    ),
    # NCCL and the network
    "NVLink SHARP memory that cannot be bound": (
        say("nccl.warn", 1, signature="init_failed", text="Failed to bind NVLS memory: CUDA error 401"),
        "nvlink_fabric_down", (1,), "CUDA error on rank 1",
    ),
    "a dead link makes victims": (
        [*say("nccl.warn", 1, ago=60, signature="ib_retry_exceeded", peer="10.0.0.7", device="mlx5_2"),
         *say("nccl.warn", 0, ago=59, signature="connection_closed"), *late(0)],
        "ib_retry_exceeded", (1,), "over InfiniBand: 10.0.0.7",
    ),
    "NCCL says more than a traceback without its end": (
        [*raised(3, "", cut=True), *say("nccl.warn", 3, signature="connect_failed", peer="10.0.0.4<5>")],
        "nccl_connect_failed", (3,), "10.0.0.4<5>",
    ),
    "a communicator that some ranks never began": (
        [event for rank in range(3) for event in
         say("nccl.init", rank, ago=90, phase="start", comm_id="0xabc", group_rank=rank, size=4)],
        "init_hang", (3,), "rank 3 of it never began",
    ),
    # the store
    "a store to which one did not come": (
        [*say("torch.store_retry", 0, 1, 3), *say("torch.store_timeout", 0, joined=3, expected=4, phase="clients")],
        "store_timeout", (2,), "only 3 of 4 came",
    ),
    "a store that was not reached": (
        say("torch.store_timeout", 2, phase="connect", address="10.255.255.1", port=29500), "store_timeout", (2,),
        "rank 2 did not reach the store at 10.255.255.1",
    ),
    "a rank that gives the communicator's identifier": (
        say("torch.store_timeout", 1, phase="wait", from_rank=0, keys="default_pg/0/0"), "store_timeout", (0,),
        "had not come",
    ),
    # torch's watchdog and checks
    "who had launched least": (
        [*late(0, 1, 3), *(e for r in range(4) for e in status(r, 5 if r == 2 else 7, group_name="default_pg"))],
        "watchdog_timeout", (2,),
        "ALLREDUCE #7 of group default_pg timed out after 10 min: rank 2 had launched 5 of 7",
    ),
    "a rank that stands in what another rank completed": (
        [*late(0), *status(0, 12), *late(1, 2, 3, seq=9), *(e for r in (1, 2, 3) for e in status(r, 12, completed=8))],
        "watchdog_timeout", (0,), "rank 0 had launched it, and other ranks completed it",
    ),
    "a rank without a time-out in a log that was read": (
        [*late(0, 1, 3, source=""), *say("log.end", 2)], "watchdog_timeout", (2,), "had not launched it",
    ),
    "a log that was not read is not silence": (
        [event for rank in (0, 1, 3) for event in late(rank, source=f"{rank}.err")], "watchdog_timeout", NOBODY,
        "no report from rank 2, so",
    ),
    "all timed out in one operation": (late(0, 1, 2, 3), "watchdog_timeout", NOBODY, "it did not complete"),
    "an abort after a time-out is torch's own": (
        [*late(0, 1, 2, 3), *say("process.signal", 0, 1, 2, 3, ago=8, signal="ABRT", what="c10::DistBackendError")],
        "watchdog_timeout", NOBODY, "timed out",
    ),
    "a time-out that names no operation and no time": (
        say("torch.watchdog_timeout", 0, 1, 2, 3, seq=7), "watchdog_timeout", NOBODY, "a collective timed out: ",
    ),
    "groups of one description are told apart by GUID": (
        [*of_group("4", "dp", 0, 1), *of_group("5", "dp", 2, 3, seq=9)], "watchdog_timeout", NOBODY, "group 4 (dp)",
    ),
    "another operation at one number": (
        [*late(0, 2, 3), *late(1, op="BROADCAST")], "collective_mismatch", (1,), "rank 1 BROADCAST #7",
    ),
    "another size at one number": (
        [*late(0, 2, 3, numel_in=64), *late(1, numel_in=63)], "collective_size_mismatch", (1,), "63 elements",
    ),
    "places in a chain of broadcasts are no mismatch": (
        [*late(0, seq=60), *late(1, op="BROADCAST", seq=41), *late(2, 3, op="BROADCAST", seq=44)],
        "watchdog_timeout", NOBODY, "timed out",
    ),
    "what a torn line leaves out is no difference": (
        [*late(0, 1, 2, numel_in=64), *late(3, op="", numel_in=64)], "watchdog_timeout", NOBODY, "timed out",
    ),
    "a rank that finished before the others timed out": (
        [*late(0, 1, 2), *say("job.finished", 3, ago=700)], "rank_left_early", (3,), "3 others wait in a collective",
    ),
    "an end that came later": ([*late(0, 1, 2), *say("job.finished", 3, ago=5)], "watchdog_timeout", (3,), "rank 3"),
    "fingerprints, put to the vote": (
        [*pair(0, "ALLREDUCE", "BROADCAST"), *pair(2, "ALLREDUCE", "BROADCAST")], "collective_mismatch", (1,), "rank 1",
    ),
    "watchdogs that stop after a collective had timed out are no cause": (
        [*late(0, 1, 3), *say("torch.watchdog_stuck", 0, 1, 2, 3, ago=5, seconds=480)], "watchdog_timeout", (2,), "",
    ),
    "gloo's time-out names who says nothing": (
        [*say("gloo.timeout", 0, 2, ms=8000, direction="recv"), *lost(3)], "watchdog_timeout", (1,), "after 8 s",
    ),
    "a rendezvous that lost its store": (
        say("elastic.rendezvous", problem="Connection"), "store_timeout", NOBODY, "no connection to the store",
    ),
}  # fmt: skip


def judged(events: list[Event], world: int = 4) -> Sketch:
    job = after(world)
    for event in events:
        job.says(event.kind, event.rank, ago=event.ago, **event.data)
    return job


@pytest.mark.parametrize("case", CASES)
def test_the_first_finding(case: str) -> None:
    events, kind, ranks, words = CASES[case]
    world = 8 if "earliest" in case else 3 if "small" in case else 4
    found = first(judged(events, world).verdict())
    assert (found.kind, found.ranks) == (kind, ranks)
    assert words in found.summary


@pytest.mark.parametrize(
    "events",
    [
        [*raised(1, survived=True), *say("elastic.finished")],
        say("nccl.connect_retry", 3, tried=3),
        say("torch.program_exit", 0, 1, 2, 3, ago=3),
        say("launcher.exit", launcher="deepspeed"),
        say("slurm.cancelled", reason="user"),
    ],
)
def test_no_alarm(events: list[Event]) -> None:
    assert alarms(judged(events).verdict()) == []


def test_consequences_name_their_cause() -> None:
    verdict = judged([*raised(2, ago=60), *lost(0, 3), *late(0, 3), *failed(0, 1)]).verdict()
    assert verdict.outcome == "crashed"
    assert [one.kind for one in verdict.findings if not one.cause] == ["rank_crashed"]


def test_a_log_of_a_node_that_is_missing_is_not_silence() -> None:
    """Eight ranks a node and a log a node: a rank that a log should hold is silent, those of a missing log are not."""
    for silent, named in (({8}, (8,)), (set(range(8, 16)), ())):
        ranks = sorted(set(range(24)) - silent)
        events = [event for rank in ranks for event in late(rank, source=f"node{rank // 8}.log")]
        assert first(judged(events, 24).verdict()).ranks == named


def test_a_wait_is_followed_into_another_group() -> None:
    """Rank 0 waits for 1 in their pair; 1 waits for 3 in a pair of its own, and 3 says nothing."""
    group = {"1": {"guid": "1", "group_name": "tp"}, "2": {"guid": "2", "group_name": "tp"}}
    events = [
        *late(0, ago=20, group_rank=0, **group["1"]), *late(1, ago=19, group_rank=0, **group["2"]),
        *status(1, 6, group_rank=1, **group["1"]), *status(3, 5, group_rank=1, **group["2"]),
        *status(0, 7, group_rank=0, **group["1"]), *status(1, 7, group_rank=0, **group["2"]),
    ]  # fmt: skip
    job = judged(events)
    assert first(job.verdict()).ranks == (3,)
    edges = waits_of(job.job())
    assert {(edge.waiter, edge.for_ranks, edge.certain) for edge in edges} == {(0, (1,), True), (1, (3,), True)}


# --- numbers beyond all ranks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1 << 20, 1 << 40])
@pytest.mark.parametrize("group", ["default_pg", "dp"])
def test_a_number_beyond_all_ranks_is_no_rank_and_fills_no_memory(number: int, group: str) -> None:
    """Anybody may have written it; whoever counts up to it takes all that this machine has."""
    job = after(0)
    for place in (0, 1, number + 1):
        job.says("torch.watchdog_timeout", None, op="ALLREDUCE", seq=9, group_rank=place, group_name=group, guid="0")
        job.says("nccl.init", None, phase="start", comm_id="0xa", group_rank=place, size=number + 1)
        job.says("hccl.timeout", None, group_rank=place, size=number + 1)
        job.says("horovod.stall", None, ready=[place], missing=[])
        job.says("launcher.exit", None, tasks=[0, number + 1])
    named = {rank for finding in job.verdict().findings for rank in finding.ranks}
    assert max(named, default=0) <= 1


# --- ranks that live, and nodes -----------------------------------------------------------------------------------


def test_of_a_rank_that_lives_and_says_nothing_it_is_not_said_that_its_log_was_not_read() -> None:
    job = Sketch()
    job.ranks(0, 1, 3).gone(ago=8.0)
    job.ranks(2).at(READING)
    for rank in (0, 1, 3):
        job.says("torch.watchdog_timeout", rank, ago=9, op="ALLREDUCE", seq=7, group_name="default_pg")
    told = [one.summary for one in job.verdict().findings if one.kind == "watchdog_timeout"]
    assert told
    assert not any("were not read" in one for one in told)


def test_storage_that_does_not_answer() -> None:
    job = Sketch()
    job.ranks().at(COMPUTING)
    job.says("kernel.storage", node="node2", ago=30, system="NFS", server="fs1", ok=False)
    assert first(job.verdict()).kind == "storage_stalled"
    job.says("kernel.storage", node="node2", ago=3, system="NFS", server="fs1", ok=True)
    assert alarms(job.verdict()) == []
