"""Recorder dumps beside what the frames of ranks say of sends and receives that no dump tells of."""

from __future__ import annotations

from collectors.samples.collectives import RecorderDump
from tests.support.jobs import ALL_REDUCE, COMPUTING, NOW, Sketch, c10d, collective


def stages(*groups: tuple[int, tuple[int, ...], int, bool]) -> Sketch:
    """Four ranks over gloo; each has one entry in a group of its own: rank, members, number and whether it is done."""
    job = Sketch(world=4, stood_still=120.0)
    for rank, members, seq, done in groups:
        entry = collective(0, seq, group=str(1 + members[0]), group_description="", done=done)
        names = {str(1 + one[1][0]): list(one[1]) for one in groups if rank in one[1]}
        job.recorders.append(RecorderDump(rank, "2.10", f"/tmp/fr_{rank}", NOW - 60, names, [], [entry]))
    return job


def test_who_waits_in_a_receive_that_its_recorder_does_not_keep_is_not_to_blame() -> None:
    """Rank 2 waits for 3 in an all_reduce, 1 for 0; 0 is in a receive from 2, which gloo's recorder does not keep."""
    job = stages((0, (0, 1), 4, True), (1, (0, 1), 5, False), (2, (2, 3), 9, False), (3, (2, 3), 8, True))
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(c10d("recv", "take pipe.py:7"), arguments={"src": "2"})
    job.ranks(3).at(COMPUTING, state="R").pulse(cores=1.0)
    found = next(f for f in job.verdict().findings if f.kind == "collective_mismatch")
    assert found.ranks == (3,)
    assert "rank 3 on node2 did not join all_reduce #9 of group 3" in found.summary


def test_where_all_who_stayed_away_wait_in_receives_they_are_named() -> None:
    job = stages((0, (0, 1), 4, True), (1, (0, 1), 5, False))
    job.ranks().at(ALL_REDUCE)
    job.ranks(0).at(c10d("recv", "take pipe.py:7"))
    found = next(f for f in job.verdict().findings if f.kind == "collective_mismatch" and "did not join" in f.summary)
    assert found.ranks == (0,)


def test_each_of_several_who_stayed_away_is_told_with_what_waits_for_it() -> None:
    job = stages((0, (0, 1), 4, True), (1, (0, 1), 5, False), (2, (2, 3), 9, False), (3, (2, 3), 8, True))
    job.ranks().at(ALL_REDUCE)
    job.ranks(0, 3).at(COMPUTING, state="R").pulse(cores=1.0)
    found = next(f for f in job.verdict().findings if f.kind == "collective_mismatch")
    assert found.ranks == (0, 3)
    assert "rank 0 on node1 did not join all_reduce #5 of group 1" in found.summary
    assert "and rank 3 not what others wait in" in found.summary


def test_ranks_that_wait_are_counted_over_all_sources() -> None:
    """Dumps of two ranks alone, and stacks of all eight: seven wait for rank 3."""
    job = Sketch(world=8, stood_still=120.0)
    job.ranks().at(ALL_REDUCE)
    job.ranks(3).at(COMPUTING, state="R").pulse(cores=1.0)
    members = {"0": list(range(8))}
    for rank, seq in ((0, 7), (3, 6)):
        entry = collective(rank, seq, group="0", group_description="default_pg", done=rank == 3)
        job.recorders.append(RecorderDump(rank, "2.10", f"/tmp/fr_{rank}", NOW - 60, members, [], [entry]))
    found = next(f for f in job.verdict().findings if f.kind == "collective_mismatch")
    assert found.ranks == (3,)
    assert "7 others wait" in found.summary


def test_a_group_of_which_one_dump_alone_tells_is_not_said_to_stand_still_with_all_of_its_ranks() -> None:
    """Dumps come one after another, and a dump may not list the members of a group."""
    job = Sketch(world=4, stood_still=120.0)
    job.ranks().at(ALL_REDUCE)
    entry = collective(0, 71, "broadcast", group="11", group_description="", done=False)
    job.recorders.append(RecorderDump(1, "2.10", "/tmp/fr_1", NOW - 60, {}, [], [entry]))
    assert not any("all 1 rank" in finding.summary for finding in job.verdict().findings)
