"""What logs of a job that is over prove: events in, the first finding's kind, ranks and words out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from hangtop.diagnosis.collectives.sources import waits_of
from hangtop.diagnosis.rules.crash import remote_error
from hangtop.diagnosis.rules.event_rows import EVENT_ROWS
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


def pair(rank: int) -> list[Event]:
    """A line of torch's DETAIL: this rank ran an all-reduce, and rank 1 a broadcast."""
    return say("torch.fingerprint", rank, **SAME, rank_a=rank, op_a="ALLREDUCE", op_b="BROADCAST")


def of_group(guid: str, *ranks: int, **data: Any) -> list[Event]:
    """Time-outs of the ranks of one group named dp, each with its place in the group."""
    own = {"guid": guid, "group_name": "dp", "numel_in": 64, **data}
    return [event for place, rank in enumerate(ranks) for event in late(rank, group_rank=place, **own)]


def aborted(*ranks: int) -> list[Event]:
    return say("process.signal", *ranks, ago=8, signal="ABRT", what="c10::DistBackendError")


def interrupted(*ranks: int) -> list[Event]:
    return [event for rank in ranks for event in raised(rank, "KeyboardInterrupt", signature="interrupt")]


def failed_in_nccl(*ranks: int, **data: Any) -> list[Event]:
    return [
        event for rank in ranks for event in raised(rank, "DistBackendError: system error", signature="nccl", **data)
    ]


def killed(**data: Any) -> list[Event]:
    """Rank 1 got SIGKILL on n1, and Slurm reports that memory ran out."""
    return [*failed(1, 137, host="n1"), *say("slurm.out_of_memory", data.pop("rank", None), ago=3, **data)]


def store(joined: int, **data: Any) -> list[Event]:
    return say("torch.store_timeout", data.pop("rank", None), joined=joined, expected=4, phase="clients", **data)


def tasks(*numbers: int, rank: int | None = None, exitcode: int = 1) -> list[Event]:
    """One line of srun about several tasks."""
    return say("launcher.exit", rank, launcher="slurm", exitcode=exitcode, tasks=[*numbers])


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
    "Slurm names no task where memory ran out": (killed(), "rank_killed", (1,), "the kernel: out of memory"),
    "Slurm names the node of the rank": (killed(host="n1"), "rank_killed", (1,), "the kernel: out of memory"),
    "memory ran out on another node": (killed(host="n2"), "rank_killed", (1,), "killed by SIGKILL from outside"),
    "memory ran out for another task": (killed(task=3), "rank_killed", (1,), "killed by SIGKILL from outside"),
    "memory ran out in the log of rank 3": (killed(rank=3), "rank_killed", (1,), "killed by SIGKILL from outside"),
    "an inference engine ended its workers after a time-out": (
        [*say("engine.timeout", call="sample"), *failed(0, -9), *failed(1, -3)], "watchdog_timeout", NOBODY, "sample",
    ),
    "a worker that failed by itself before its engine's time-out": (
        [*say("engine.timeout", call="sample"), *failed(2, -11)], "rank_crashed", (2,), "signal SEGV",
    ),
    "tasks of one line of srun": (tasks(1, 3), "child_failed_no_detail", (1, 3), "exit code 1"),
    "tasks of a line of one rank": (tasks(1, 3, rank=2), "child_failed_no_detail", (2,), "exit code 1"),
    "tasks that were told to end": (tasks(0, 1, 2, exitcode=-15), "rank_killed", NOBODY, "ended from outside"),
    "all ranks failed in NCCL, which gives no reason": (
        failed_in_nccl(0, 1, 2, 3), "rank_crashed", (0, 1, 2, 3), "failed in NCCL: DistBackendError",
    ),
    # by elimination
    "three ranks timed out, and torch ended them": (
        [*late(0, 1, 2), *aborted(0, 1, 2)], "watchdog_timeout", NOBODY, "no report from rank 3",
    ),
    "three ranks that timed out lost a peer": (
        [*late(0, 1, 2), *aborted(0, 1, 2), *lost(0, 1, 2)], "rank_killed", (3,), "left no message",
    ),
    "three ranks report the user's Ctrl-C": (
        [*interrupted(0, 1, 2), *say("elastic.signal", signal="INT")], "rank_killed", NOBODY, "ended by its user",
    ),
    "every rank lost a peer": (lost(0, 1, 2, 3), "nccl_remote_error", NOBODY, "ranks 0-3 lost a peer"),
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
        [*say("torch.store_retry", 0, 1, 3), *store(3)],
        "store_timeout", (2,), "only 3 of 4 came",
    ),
    "a store to which one came of two that are silent": (
        [*say("torch.store_retry", 0, 1), *store(3)], "store_timeout", NOBODY, "only 3 of 4 came",
    ),
    "a store to which no rank of a job that nobody knows came": (store(0), "store_timeout", NOBODY, "only 0 of 4 came"),
    "a store of a job of unknown size": (
        [*say("torch.store_retry", 0, 1, 2), *store(3)], "store_timeout", (3,), "only 3 of 4 came",
    ),
    "a rendezvous that timed out": (
        say("elastic.rendezvous", problem="Timeout"), "store_timeout", NOBODY, "a wait in the store timed out",
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
        [*late(0, 1, 2, 3), *aborted(0, 1, 2, 3)],
        "watchdog_timeout", NOBODY, "timed out",
    ),
    "a time-out that names no operation and no time": (
        say("torch.watchdog_timeout", 0, 1, 2, 3, seq=7), "watchdog_timeout", NOBODY, "a collective timed out: ",
    ),
    "groups of one description are told apart by GUID": (
        [*of_group("4", 0, 1), *of_group("5", 2, 3, seq=9)], "watchdog_timeout", NOBODY, "group 4 (dp)",
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
        [*pair(0), *pair(2)], "collective_mismatch", (1,), "rank 1",
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
    world = 8 if "earliest" in case else 3 if "small" in case else 0 if "unknown size" in case else 4
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
        failed_in_nccl(0, 1, 2, 3, consequence=True),
        say("elastic.rendezvous", problem="Connection", warned="shutting down"),
        [*say("elastic.rendezvous", problem="Connection"), *say("elastic.finished")],
        say("slurm.cancelled", reason="user"),
    ],
)
def test_no_alarm(events: list[Event]) -> None:
    assert alarms(judged(events).verdict()) == []


def test_ranks_that_failed_in_nccl_are_not_named_where_nccl_gives_the_reason() -> None:
    reason = say("nccl.warn", 1, signature="connect_failed", peer="10.0.0.4<5>")
    assert alarms(judged([*failed_in_nccl(0, 1, 2, 3), *reason]).verdict()) == ["nccl_connect_failed"]


ONE_LOG: dict[str, Any] = {"source": "a.log"}
NO_FILES = say("host.open_files", **ONE_LOG)


@pytest.mark.parametrize(
    ("events", "live", "ranks"),
    [
        (failed(2, 1, **ONE_LOG), False, (2,)),
        (failed(2, 1, **ONE_LOG), True, ()),
        (failed(2, 1, source="b.log"), False, ()),
        (failed(2, -15, **ONE_LOG), False, ()),
        (raised(2, **ONE_LOG), False, ()),
        ([*failed(2, 1, **ONE_LOG), *failed(3, 1, **ONE_LOG)], False, ()),
    ],
    ids=["its log", "a live job", "another log", "told to end", "raised", "two ranks"],
)
def test_a_line_without_a_rank_is_of_the_only_rank_that_its_log_reports_as_failed(
    events: list[Event], live: bool, ranks: tuple[int, ...]
) -> None:
    (row,) = (row for row in EVENT_ROWS if row.event.kind == "host.open_files")
    (found,) = row(replace(judged([*NO_FILES, *events]).job(), live=live))
    assert found.ranks == ranks


@pytest.mark.parametrize(
    ("events", "live", "gone", "told"),
    [
        (lost(0), True, (1,), "rank 0 lost a peer, which ended first; there is no message from rank 1"),
        (lost(0), True, (), ""),
        (lost(0), False, (), "rank 0 lost a peer, which ended first; there is no message from ranks 1-3"),
        ([*lost(0), *say("log.end", 1)], True, (1,), "; there is no message from rank 1"),
        (say("gloo.closed", None), True, (1,), "a rank lost a peer, which ended first"),
    ],
    ids=["a rank is gone", "all ranks live", "saved", "a log that ends", "no rank is named"],
)
def test_a_lost_peer_is_told_unless_all_ranks_live(
    events: list[Event], live: bool, gone: tuple[int, ...], told: str
) -> None:
    """Lost connections of a job that lives are of an attempt before."""
    job = Sketch(age=8.5 if not gone else 600.0)
    for rank in gone:
        job.ranks(rank).gone(ago=9.0)
    for event in events:
        job.says(event.kind, event.rank, ago=event.ago, **event.data)
    found = [one.summary for one in remote_error(replace(job.job(), live=live))]
    assert [one.endswith(told) for one in found] == [True] * bool(told)


def test_a_lost_peer_of_a_job_of_unknown_size_is_told() -> None:
    assert first(judged(say("gloo.closed", None), 0).verdict()).kind == "nccl_remote_error"


@pytest.mark.parametrize(
    ("op", "seqs", "sure"),
    [("BROADCAST", (1, 4, 9, 9, 9), False), ("BROADCAST", (4, 9, 9, 9, 9), True), ("ALLREDUCE", (1, 4, 9, 9, 9), True)],
    ids=["a chain of broadcasts", "two places", "another collective"],
)
def test_ranks_at_many_places_of_a_chain_of_broadcasts_may_be_on_their_way(
    op: str, seqs: tuple[int, ...], sure: bool
) -> None:
    job = judged([event for rank, seq in enumerate(seqs) for event in late(rank, op=op, seq=seq)], 5)
    assert {edge.certain for edge in waits_of(job.job())} == {sure}
    assert bool(first(job.verdict()).ranks) is sure


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


@pytest.mark.parametrize(
    ("completed", "advice"), [(8, "Suspect a kernel on that GPU"), (6, "The time-out is a consequence: find what kept")]
)
def test_a_rank_that_had_launched_what_others_completed_is_not_looked_for_in_its_code(
    completed: int, advice: str
) -> None:
    others = [event for rank in (1, 2, 3) for event in status(rank, 12, completed=completed)]
    verdict = judged([*late(0), *status(0, 12 if completed == 8 else 7), *late(1, 2, 3, seq=9), *others]).verdict()
    assert first(verdict).ranks == (0,)
    assert first(verdict).advice.startswith(advice)


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
