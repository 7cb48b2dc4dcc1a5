"""Ranks of processes that do not say theirs, by NCCL's lines in the files that they write."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from collectors.node.logs.following.numbered import labelled_in, told_numbers
from collectors.node.logs.following.source import LogSource
from collectors.node.shared import Shared, ToldRank
from collectors.samples.ranks import RankProcess
from tests.support.fake_proc import FakeProc
from tests.support.made import process

HOST = os.uname().nodename.partition(".")[0]


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    made = FakeProc(tmp_path / "proc")
    for pid in (50, 51):
        made.add(pid, inner=pid - 40)
    return made


def nameless(pid: int, **fields: Any) -> RankProcess:
    given = {"local_rank": None, "world_size": None, "numbered_by": "", "library": "torch", **fields}
    return process(-1, pid)._replace(**given)


def told(
    proc: FakeProc,
    lines: dict[int, list[tuple[str, int, int, int]]],
    labels: dict[int, set[int]] | None = None,
    **fields: Any,
) -> dict[int, ToldRank]:
    return told_numbers(str(proc.root), [nameless(50, **fields), nameless(51, **fields)], lines, {}, labels or {})


def test_the_largest_communicator_of_each_process_tells_its_rank(proc: FakeProc) -> None:
    both = [(HOST, 10, 6, 8), (HOST, 10, 0, 2), (HOST, 11, 7, 8), (HOST, 99, 3, 64)]
    assert told(proc, {50: both, 51: both}) == {50: ToldRank(6, 8), 51: ToldRank(7, 8)}


@pytest.mark.parametrize(
    "lines",
    [
        {},
        {50: [("another", 10, 6, 8)]},
        {50: [(HOST, 10, 3, 8)], 51: [(HOST, 11, 3, 8)]},
        {50: [(HOST, 10, 0, 1)]},
    ],
    ids=["nothing", "another host with the same pids", "two say the same", "a communicator of one"],
)
def test_what_tells_no_rank(proc: FakeProc, lines: dict[int, list[tuple[str, int, int, int]]]) -> None:
    assert told(proc, lines) == {}


def test_a_group_of_the_job_is_not_the_job(proc: FakeProc) -> None:
    assert told(proc, {50: [(HOST, 10, 1, 2)]}, world_size=8) == {}
    assert told(proc, {50: [(HOST, 10, 1, 2)], 51: [(HOST, 11, 5, 8)]}) == {51: ToldRank(5, 8)}


def test_the_source_tells_the_others(proc: FakeProc, tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    init = "%s:%d:999 [%d] NCCL INFO ncclCommInitRank comm 0x55d%d rank %d nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x7 - Init COMPLETE\n"  # noqa: E501
    log.write_text("".join(init % (HOST, 10 + rank, rank, rank, rank) for rank in (0, 1)))
    shared = Shared()
    for pid in (50, 51):
        proc.link(proc.root / str(pid) / "fd" / "1", str(log))
    shared.ranks = tuple(nameless(pid, stdout=str(log)) for pid in (50, 51))
    list(LogSource(shared, str(proc.root), str(tmp_path / "sys")).look(1e9))
    assert shared.told == {50: ToldRank(0, 2), 51: ToldRank(1, 2)}


def test_torch_s_labels_number_whose_own_file_it_is(proc: FakeProc) -> None:
    assert told(proc, {}, {50: {3}, 51: {0}}) == {50: ToldRank(3, None), 51: ToldRank(0, None)}
    assert told(proc, {51: [(HOST, 11, 5, 8)]}, {50: {3}, 51: {0}}) == {50: ToldRank(3, None), 51: ToldRank(5, 8)}


@pytest.mark.parametrize(
    ("lines", "labels"),
    [
        ({}, {50: {3}, 51: {3}}),
        ({}, {50: {3, 4}}),
        ({51: [(HOST, 11, 1, 2)]}, {50: {3}, 51: set()}),
    ],
    ids=["two say the same", "two numbers in one file", "a rank beyond the job"],
)
def test_labels_that_tell_no_rank(
    proc: FakeProc, lines: dict[int, list[tuple[str, int, int, int]]], labels: dict[int, set[int]]
) -> None:
    assert 50 not in told(proc, lines, labels)


def test_labels_at_the_beginnings_of_lines_with_their_time() -> None:
    now = float(int(time.time()))  # labels print whole seconds
    stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now - 60)).encode()
    data = b"[rank3]:[W%b.5 a.cpp:3] x\n [rank4]: y\n[rank5]: no time\nz [rank6]: z\n[rank7]:W%b.1 1 b.py:2]" % (
        stamp,
        stamp,
    )
    assert {number: round(now - at) for number, at in labelled_in(data, now, live=False).items()} == {3: 60, 7: 60}
    assert labelled_in(data, now, live=True) == {3: now, 5: now, 7: now}
    assert labelled_in(b"rank3: x", now, live=True) == {}


@pytest.mark.parametrize(("shared_by_two", "old"), [(False, False), (True, False), (False, True)])
def test_the_source_numbers_by_labels_of_this_run_in_a_file_of_one(
    shared_by_two: bool, old: bool, proc: FakeProc, tmp_path: Path
) -> None:
    now = time.time()
    logs = [tmp_path / "a.log", tmp_path / ("a.log" if shared_by_two else "b.log")]
    stamp = time.strftime("%m%d %H:%M:%S", time.localtime(now - (600 if old else 60)))
    logs[0].write_text(f"[rank3]:[W{stamp}.123456 ProcessGroup.cpp:5] Warning: x\n")
    logs[-1].touch()
    shared = Shared()
    for pid, log in zip((50, 51), logs, strict=True):
        proc.link(proc.root / str(pid) / "fd" / "1", str(log))
    shared.ranks = tuple(
        nameless(pid, stdout=str(log), started=now - 300) for pid, log in zip((50, 51), logs, strict=True)
    )
    list(LogSource(shared, str(proc.root), str(tmp_path / "sys")).look(now))
    assert shared.told == ({} if shared_by_two or old else {50: ToldRank(3, None)})
