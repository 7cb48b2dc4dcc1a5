"""Logs of ranks that are no longer there: found beside those of the ranks that are, and nobody else's."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from collectors.node.logs.following.log_paths import WantedLog
from collectors.node.logs.following.missing_rank_logs import RankNumbers, logs_of_absent, missing, named_alike
from collectors.samples.ranks import RankProcess
from tests.support.made import process


def ranks(*numbers: int, first: int | None = 0, **fields: Any) -> list[RankProcess]:
    """Ranks of a node whose first one is ``first``; None where nothing tells which number each has there."""
    given = {"started": 0.0, **fields}
    return [process(number, local_rank=None if first is None else number - first, **given) for number in numbers]


def test_who_should_run_here_is_told_by_local_ranks() -> None:
    found = list(missing(ranks(4, 5, 7, first=4)))
    assert [(place.rank, place.local) for place, _ in found] == [(6, 2)]
    assert [rank.rank for rank in found[0][1]] == [5, 7, 4]


def test_without_local_ranks_those_between_are_missing() -> None:
    assert [place.rank for place, _ in missing(ranks(2, 5, first=None, local_world_size=None))] == [3, 4]


def test_ranks_of_two_runs_are_no_neighbours() -> None:
    mixed = [*ranks(0, 1, run_id="a", local_world_size=2), *ranks(0, run_id="b", local_world_size=2)]
    assert [(place.rank, beside[0].run_id) for place, beside in missing(mixed)] == [(1, "b")]


@pytest.mark.parametrize(
    ("path", "own", "theirs", "found"),
    [
        ("/logs/rank3.err", RankNumbers(3, 1), RankNumbers(2, 0), "/logs/rank2.err"),
        ("/logs/rank003.err", RankNumbers(3, 1), RankNumbers(2, 0), "/logs/rank002.err"),
        ("/logs/rank9.err", RankNumbers(9, 1), RankNumbers(10, 2), "/logs/rank10.err"),
        ("/logs/4711_12.out", RankNumbers(12, 4), RankNumbers(13, 5), "/logs/4711_13.out"),
        ("/elastic/attempt_0/1/stderr.log", RankNumbers(5, 1), RankNumbers(4, 0), "/elastic/attempt_0/0/stderr.log"),
        ("/run7/7/rank7.log", RankNumbers(7, 7), RankNumbers(6, 6), "/run7/7/rank6.log"),
    ],
)
def test_names(path: str, own: RankNumbers, theirs: RankNumbers, found: str) -> None:
    assert found in list(named_alike(path, own, theirs))


def wanted(path: Path, rank: int, stream: str = "stderr") -> WantedLog:
    return WantedLog(str(path), 1000 + rank, rank, stream, "")


def files(folder: Path, *names: str) -> list[Path]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("iter 3\n")
    return [folder / name for name in names]


def test_the_log_of_the_rank_that_is_gone_is_found(tmp_path: Path) -> None:
    mine, theirs = files(tmp_path, "rank3.err", "rank2.err")
    here = ranks(3, first=2, local_world_size=2, started=time.time() - 60)
    found = list(logs_of_absent(here, [wanted(mine, 3)]))
    assert found == [WantedLog(str(theirs), None, 2, "stderr", "", here[0].uid)]


def test_no_log_is_taken_from_before_of_another_owner_or_of_a_rank_that_is_here(tmp_path: Path) -> None:
    mine, old = files(tmp_path, "rank3.err", "rank2.err")
    here = ranks(3, first=2, local_world_size=2, started=time.time() - 60)
    os.utime(old, (time.time() - 3600,) * 2)
    assert list(logs_of_absent(here, [wanted(mine, 3)])) == []
    os.utime(old)
    assert len(list(logs_of_absent(here, [wanted(mine, 3)]))) == 1
    assert list(logs_of_absent(here, [wanted(mine, 3), WantedLog(str(old), 9, None, "stdout", "")])) == []
    if os.geteuid() == 0:
        os.chown(old, 4711, 4711)
        assert list(logs_of_absent(here, [wanted(mine, 3)])) == []


def test_a_name_that_says_another_rank_is_not_taken(tmp_path: Path) -> None:
    mine, _ = files(tmp_path, "job3/rank1.err", "job2/rank1.err")
    here = ranks(3, first=2, local_world_size=2, started=time.time() - 60)
    assert list(logs_of_absent(here, [wanted(mine, 3)])) == []


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    (mine,) = files(tmp_path, "rank3.err")
    os.mkfifo(tmp_path / "rank2.err")
    here = ranks(3, first=2, local_world_size=2, started=time.time() - 60)
    assert list(logs_of_absent(here, [wanted(mine, 3)])) == []


def test_nobody_is_missing_where_all_are_here(tmp_path: Path) -> None:
    one, two, _ = files(tmp_path, "rank0.err", "rank1.err", "rank2.err")
    here = ranks(0, 1, local_world_size=2, started=time.time() - 60)
    assert list(logs_of_absent(here, [wanted(one, 0), wanted(two, 1)])) == []
