"""Flight recorders, NCCL RAS and NCCL's own log, put side by side."""

from __future__ import annotations

from typing import Any

import pytest

from collectors.samples.collectives import Collective, GroupStatus, RasCommunicator, RasRank, RasReport, RecorderDump
from collectors.samples.logs import CommProgress
from hangtop.diagnosis.collectives.recorder import match
from hangtop.diagnosis.collectives.sources import waits_of
from hangtop.diagnosis.job import Look
from tests.support.jobs import ALL_REDUCE, NOW, READING, Sketch, after, alarms, collective, first, gpu, kinds


def dump(rank: int, *entries: Collective, members: dict[str, list[int]] | None = None) -> RecorderDump:
    """A rank's dump, taken a minute ago."""
    done = [entry.seq for entry in entries if entry.retired and not entry.p2p]
    seqs = [entry.seq for entry in entries if not entry.p2p]
    status = [GroupStatus(rank, "0", max(seqs, default=-1), max(done, default=-1))]
    groups = {"0": [0, 1, 2, 3]} if members is None else members
    return RecorderDump(rank, "2.10", f"/tmp/fr_{rank}", NOW - 60, groups, status, list(entries))


def history(rank: int, until: int, **last: Any) -> list[Collective]:
    """Finished collectives up to ``until``, and, with ``last``, an open one after them."""
    entries = [collective(rank, seq) for seq in range(1, until + 1)]
    if last:
        entries.append(collective(rank, until + 1, done=False)._replace(**last))
    return entries


def recorded(*dumps: RecorderDump) -> Sketch:
    job = after()
    job.recorders.extend(dumps)
    return job


def test_one_did_not_join() -> None:
    job = recorded(*(dump(r, *history(r, 6, op="all_reduce")) for r in (0, 1, 2)), dump(3, *history(3, 6)))
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (3,))
    assert "all_reduce #7" in found.summary


def test_the_stack_says_why_one_did_not_join() -> None:
    job = Sketch()
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(READING)
    job.recorders.extend([*(dump(r, *history(r, 6, op="all_reduce")) for r in (0, 1, 2)), dump(3, *history(3, 6))])
    verdict = job.verdict()
    assert (first(verdict).kind, first(verdict).ranks) == ("rank_stuck_in_data", (3,))
    assert [f.cause for f in verdict.findings if f.kind == "collective_mismatch"] == ["rank_stuck_in_data"]


@pytest.mark.parametrize(("load", "kind"), [(None, "collective_stalled"), ("idle", "collective_mismatch")])
def test_who_did_not_join_as_its_own_gpu_does_not_finish_has_not_erred(load: str | None, kind: str) -> None:
    job = Sketch(stood_still=30.0)
    job.ranks().at(["synchronize /env/site-packages/torch/cuda/__init__.py:985", "train train.py:50"], state="R")
    if load == "idle":
        row = {"utilization": 0, "power": 75.0}
        for index in (1, 2):
            pids = [998 + 2 * index, 999 + 2 * index]
            job.node(f"node{index}", gpus=tuple(gpu(i, [row] * 4, pids=[pid]) for i, pid in enumerate(pids)))
    job.recorders.extend([*(dump(r, *history(r, 6, op="all_reduce")) for r in (0, 1, 2)), dump(3, *history(3, 6))])
    found = first(job.verdict())
    assert (found.kind, found.ranks) == (kind, (3,))
    assert ("what its own GPU does not finish" in found.summary) == (kind == "collective_stalled")


@pytest.mark.parametrize("odd", [{"input_sizes": [[8]]}, {"input_dtypes": ["Half"]}])
def test_sizes_and_types(odd: dict[str, Any]) -> None:
    dumps = [dump(r, *history(r, 6, **(odd if r == 2 else {"op": "all_reduce"}))) for r in range(4)]
    found = first(recorded(*dumps).verdict())
    assert (found.kind, found.ranks) == ("collective_size_mismatch", (2,))


def test_who_failed_by_itself_wrote_no_dump_for_that() -> None:
    """That it did not join says nothing more, and is no hang."""
    job = recorded(*(dump(r, *history(r, 6, op="all_reduce")) for r in (0, 1, 3)))
    job.says("python.exception", 2, ago=70.0, type="KeyError", message="'lr'", signature="user", consequence=False)
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).kind, first(verdict).ranks) == ("crashed", "rank_crashed", (2,))
    assert "collective_mismatch" not in kinds(verdict)


def test_a_rank_without_a_dump_is_evidence() -> None:
    found = first(recorded(*(dump(r, *history(r, 6, op="all_reduce")) for r in (0, 1, 3))).verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (2,))
    assert found.weight < 0.7
    assert "no dump" in found.summary


def test_gloo_never_says_completed_and_has_no_groups() -> None:
    def quirky(rank: int, until: int, *, open_one: bool) -> RecorderDump:
        entries = [entry._replace(state="scheduled", backend="gloo") for entry in history(rank, until)]
        if open_one:
            entries.append(collective(rank, until + 1, done=False)._replace(state="scheduled", backend="gloo"))
        return dump(rank, *entries, members={})

    job = recorded(*(quirky(r, 6, open_one=True) for r in (0, 2, 3)), quirky(1, 6, open_one=False))
    assert first(job.verdict()).ranks == (1,)


def test_all_joined_and_none_completed() -> None:
    found = first(recorded(*(dump(r, *history(r, 6, op="all_reduce")) for r in range(4))).verdict())
    assert (found.kind, found.ranks) == ("collective_stalled", (0, 1, 2, 3))


def test_ranks_far_apart_in_a_chain_of_broadcasts() -> None:
    """The root runs ahead and data trickles down: no rank strays."""
    at = {0: 20, 1: 12, 2: 9, 3: 6}
    dumps = []
    for rank, last in at.items():
        through = rank in (0, 3)
        entries = [collective(rank, seq, "broadcast", done=through or seq < last) for seq in range(1, last + 1)]
        dumps.append(dump(rank, *entries))
    assert alarms(recorded(*dumps).verdict()) == []


def test_some_have_finished_it_and_some_not() -> None:
    """Data has moved, so that all have joined: the GPUs of those that have it open stand still."""
    dumps = [
        dump(rank, *history(rank, 7)) if rank < 3 else dump(rank, *history(rank, 6, op="all_reduce"))
        for rank in range(4)
    ]
    found = first(recorded(*dumps).verdict())
    assert (found.kind, found.ranks) == ("collective_stalled", (3,))
    assert "which ranks 0-2 have: the GPU stands still" in found.summary


def test_two_sides_of_a_split_carry_one_name() -> None:
    """split_group: ranks 0 and 1 wait in theirs for nobody of the other half."""
    halves = {rank: {"0": [0, 1, 2, 3], "half": [0, 1] if rank < 2 else [2, 3]} for rank in range(4)}
    entries = {
        rank: [collective(rank, seq, group="half") for seq in range(1, 9 if rank < 2 else 4)] for rank in range(4)
    }
    entries[0].append(collective(0, 9, group="half", done=False))
    dumps = [dump(rank, *history(rank, 6), *entries[rank], members=halves[rank]) for rank in range(4)]
    assert match(dumps).culprits == (1,)


def test_other_pairs_tell_which_of_two_is_right() -> None:
    pairs = {"tp0": [0, 1], "tp1": [2, 3]}
    dumps = []
    for rank in range(4):
        own: dict[str, Any] = {"group": f"tp{rank // 2}", "group_description": "tp"}
        op = "all_reduce" if rank != 1 else "all_gather"
        entries = [collective(rank, seq, **own) for seq in range(1, 7)]
        dumps.append(dump(rank, *entries, collective(rank, 7, op, done=rank > 1, **own), members=pairs))
    found = first(recorded(*dumps).verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (1,))
    alone = first(recorded(*dumps[:2]).verdict())
    assert (alone.ranks, alone.certainty) == ((0, 1), "possible"), "of two that differ nobody knows the wrong one"


def test_a_group_that_was_not_joined_but_a_later_one_was() -> None:
    """Rank 2 skips the pair's collective and goes on; both sides then wait for each other, and its neighbours tell."""
    groups = {"0": [0, 1, 2, 3], "tp0": [0, 1], "tp1": [2, 3]}

    def own(rank: int, *, skips: bool = False) -> RecorderDump:
        pair = collective(rank, 1, group=f"tp{rank // 2}", group_description="tp", done=rank < 2)
        whole = collective(rank, 1, done=False)
        return dump(rank, *([whole] if skips else [pair] if rank == 3 else [pair, whole]), members=groups)

    found = match([own(0), own(1), own(2, skips=True), own(3)])
    assert found.culprits == (2,)


def test_open_collectives_of_a_job_that_moves_are_none() -> None:
    job = Sketch(patience=60.0)
    fresh = [collective(r, 7, done=False, created=NOW - 61) for r in range(3)]
    job.recorders.extend(dump(r, *history(r, 6), *fresh[r : r + 1]) for r in range(4))
    assert alarms(job.verdict()) == []


# --- NCCL RAS ----------------------------------------------------------------------------------------------------


def answer(at: float, *counts: int, away: int | None = None) -> Look[RasReport]:
    """One answer: AllReduce counts of the ranks, and one of them that is not found."""
    ranks = [
        RasRank(r, "node1" if r < 2 else "node2", 1000 + r, "running" if r != away else "unresponsive", 0,
                {} if r == away else {"AllReduce": count})
        for r, count in enumerate(counts)
    ]  # fmt: skip
    one = RasCommunicator("27a079b8", len(counts), ranks, "RUNNING", "OK")
    return Look(at, RasReport(at, "node1", "2.28.9", [one], [], complete=True, took=0.1))


def test_counts_that_stand_still_and_differ() -> None:
    job = Sketch()
    job.ranks().at(["spin x.py:1"])
    job.ras.extend(answer(NOW - ago, 6650, 6650, 6649, 6650) for ago in (30, 20, 10))
    found = next(one for one in job.verdict().findings if one.kind == "collective_mismatch")
    assert found.ranks == (2,)
    assert "6649" in found.summary


@pytest.mark.parametrize(
    "polls",
    [
        [(6649, 6650), (6650, 6651), (6651, 6652)],  # they move
        [(6649, 6650), (6649, 6650)],  # two answers only
        [(6650, 6650)] * 3,  # even
    ],
)
def test_counts_that_mean_nothing(polls: list[tuple[int, int]]) -> None:
    job = Sketch(world=2)
    job.ras.extend(answer(NOW - 30 + index, *counts) for index, counts in enumerate(polls))
    assert alarms(job.verdict()) == []


def counted(*counts: dict[str, int], pid: int = 1000, comm: str = "27a079b8") -> list[Look[RasReport]]:
    """Three answers without motion about one communicator, by what each rank launched."""
    ranks = [
        RasRank(r, "node1" if r < 2 else "node2", pid + r, "running", 0, own) for r, own in enumerate(counts)
    ]  # fmt: skip
    one = RasCommunicator(comm, len(counts), ranks, "RUNNING", "MISMATCH")
    report = RasReport(NOW, "node1", "2.32.3", [one], [], complete=True, took=0.1)
    return [Look(NOW - ago, report) for ago in (30, 20, 10)]


def spinning() -> Sketch:
    job = Sketch()
    job.ranks().at(["spin x.py:1"])
    return job


def by_ras_of(job: Sketch) -> list[tuple[int, ...]]:
    return [one.ranks for one in job.verdict().findings if one.kind == "collective_mismatch"]


def test_the_root_of_broadcasts_is_ahead_of_the_others() -> None:
    job = spinning()
    job.ras.extend(counted({"Broadcast": 20}, {"Broadcast": 7}, {"Broadcast": 7}, {"Broadcast": 7}))
    assert by_ras_of(job) == []
    job.ras[:] = counted({"Broadcast": 8}, {"Broadcast": 8}, {"Broadcast": 7}, {"Broadcast": 8})
    assert by_ras_of(job) == [(2,)]


def test_counts_of_another_job_s_communicator_are_none_of_ours() -> None:
    job = spinning()
    usual = {"AllReduce": 10}
    job.ras.extend(counted(usual, usual, {"AllReduce": 9}, usual, pid=90_000))
    assert by_ras_of(job) == []
    assert waits_of(job.job()) == ()


def test_edges_of_all_witnesses() -> None:
    """Typed alike, whoever tells; the recorder's and RAS's are certain."""
    usual = {"AllReduce": 10}
    job = spinning()
    job.ras.extend(counted(usual, usual, {"AllReduce": 9}, usual))
    job.recorders.extend(dump(r, *history(r, 6, op="all_reduce")) for r in (0, 1, 3))
    job.recorders.append(dump(2, *history(2, 6)))
    edges = waits_of(job.job())
    assert {(edge.waiter, edge.for_ranks, edge.operation.lower().replace("_", "")) for edge in edges} == {
        (rank, (2,), "allreduce") for rank in (0, 1, 3)
    }
    assert {edge.source.partition(",")[0] for edge in edges} == {"NCCL RAS", "/tmp/fr_0", "/tmp/fr_1", "/tmp/fr_3"}
    assert all(edge.certain for edge in edges)


def test_a_dump_of_the_process_that_had_the_rank_before_is_left_out() -> None:
    job = spinning()
    job.recorders.extend(dump(r, *history(r, 6, op="all_reduce"))._replace(at=NOW - 5000) for r in (0, 1, 3))
    assert waits_of(job.job()) == ()


def test_an_ok_of_ras_is_said_and_not_believed_while_ranks_wait() -> None:
    job = Sketch(stood_still=90.0, watched=90.0, span=30.0)
    job.ranks(0, 1, 2).at(ALL_REDUCE)
    job.ranks(3).at(READING, syscall="read")
    job.ras.extend(answer(NOW - ago, 5, 5, 5, 5) for ago in (30, 20, 10))
    verdict = job.verdict()
    assert (verdict.outcome, first(verdict).ranks) == ("hung", (3,))
    assert [one.why.partition(" ")[0] for one in verdict.unknown if one.source == "NCCL RAS"] == ["says"]


def test_ranks_that_ras_cannot_find() -> None:
    job = Sketch()
    job.ras.extend(answer(NOW - ago, 5, 5, 5, 5, away=3) for ago in (30, 20, 10))
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("rank_missing", (3,))


# --- NCCL's log --------------------------------------------------------------------------------------------------


def launched(
    rank: int, count: int, op: str = "AllReduce", *, op_count: int | None = None, elements: int = 64
) -> CommProgress:
    return CommProgress(
        "0xfeed", rank, 8, rank, "node1", 1000 + rank, op, elements, "fp32", count if op_count is None else op_count,
        count, None, f"rank{rank}.log", 9000 + rank,
    )  # fmt: skip


def test_one_rank_launched_less() -> None:
    job = after(8)
    job.progress.extend(launched(rank, 7713 if rank == 7 else 7714) for rank in range(8))
    found = first(job.verdict())
    assert (found.kind, found.ranks) == ("collective_mismatch", (7,))
    assert "AllReduce #7713" in found.summary
    assert "AllReduce #7714" in found.summary


def test_the_root_of_a_broadcast_has_launched_more() -> None:
    job = after(8)
    job.progress.extend(launched(rank, 50 if rank == 0 else 42, "Broadcast") for rank in range(8))
    assert alarms(job.verdict()) == []
    pair = after(2)
    pair.progress.extend(launched(rank, 50 if rank == 0 else 42, "Broadcast") for rank in range(2))
    assert alarms(pair.verdict()) == []
    late = after(8)
    late.progress.extend(launched(rank, 41 if rank == 6 else 42, "Broadcast") for rank in range(8))
    assert first(late.verdict()).ranks == (6,)


def test_logs_of_a_job_in_motion() -> None:
    even, spread = after(8), after(8)
    even.progress.extend(launched(rank, 7714) for rank in range(8))
    spread.progress.extend(launched(rank, 7700 + rank) for rank in range(8))
    live = Sketch(world=8)
    live.ranks().at(ALL_REDUCE).pulse(switches=30, cores=0.5)
    live.progress.extend(launched(rank, 7713 if rank == 7 else 7714) for rank in range(8))
    assert [alarms(job.verdict()) for job in (even, spread, live)] == [[], [], []]


def test_of_dumps_of_active_entries_alone_a_member_that_lists_nothing_has_not_joined_what_most_wait_in() -> None:
    """The recorder wrote `scheduled` for all of them, so that it is likely and not proven."""
    waiting = [collective(rank, 7, op="all_reduce", done=False, state="scheduled") for rank in range(3)]
    dumps = [*(dump(rank, waiting[rank]) for rank in range(3)), dump(3)]
    told = [one._replace(status=[GroupStatus(one.rank, "0", 7, 6)]) for one in dumps]
    found = first(recorded(*told).verdict())
    assert (found.kind, found.ranks, found.certainty) == ("collective_mismatch", (3,), "likely")
