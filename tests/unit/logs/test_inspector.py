"""Files of NCCL's Inspector: lines of every version, sums of them, and what is none of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.node.logs.following.where import LogPlaces
from collectors.node.logs.inspector import KEPT, KINDS, Speeds
from collectors.node.logs.parser import LogParser
from collectors.samples.logs import CommSpeed
from tests.support.inspector import NOW_US, file, line, stats
from tests.support.made import process


def speeds(text: str) -> list[CommSpeed]:
    parser = LogParser("a-pid1003.log")
    assert parser.feed(text.encode()) == []
    parser.close()
    return list(parser.speeds.told())


@pytest.mark.parametrize("version", ["v4.0", "v4.1", "v4.2"])
def test_operations_are_summed_up_by_kind(version: str) -> None:
    text = file(3, [100.0, 300.0, 200.0, 400.0], version=version, name="dp" if version != "v4.0" else "")
    (found,) = speeds(text)
    assert found == CommSpeed(
        "0x7f8c496ae9f661", "dp" if version != "v4.0" else "", 3, 8, 2, None, "node1", 1003, "AllReduce", None, 1 << 30,
        4, 4, 250.0, 200.0, 400.0, NOW_US / 1e6, "a-pid1003.log",
    )  # fmt: skip


def test_peers_operations_sizes_and_communicators_are_kept_apart() -> None:
    lines = [
        line(0, 10.0, op="Send", peer=1), line(0, 20.0, op="Recv", peer=1), line(0, 30.0, op="Send", peer=2),
        line(0, 40.0, size=1 << 20), line(0, 50.0), line(0, 60.0, comm="0xb"),
    ]  # fmt: skip
    assert sorted(speed.median for speed in speeds("\n".join(lines) + "\n")) == [10, 20, 30, 40, 50, 60]


def test_only_the_last_operations_count_and_those_that_move_most_are_told() -> None:
    (found,) = speeds("".join(line(0, rate) + "\n" for rate in [1.0] * 300 + [9.0] * KEPT))
    assert (found.median, found.seen) == (9.0, 300 + KEPT)
    many = "".join(line(0, 5.0, size=1 << 20 | number) + "\n" for number in range(500))
    assert len(speeds(many + (line(0, 7.0, size=1 << 33) + "\n") * 3)) == KINDS
    assert speeds(many + (line(0, 7.0, size=1 << 33) + "\n") * 3)[0].bytes == 1 << 33


def test_torn_lines_statistics_and_strange_values_are_left_alone() -> None:
    good = line(0, 5.0)
    for bad in (
        stats(), good[:-30], good.replace('"rank":0', '"rank":"0"'), good.replace('"n_ranks":8', '"n_ranks":0'),
        good.replace('"coll_busbw_gbs":5.0', '"coll_busbw_gbs":NaN'), "loss 3 coll_perf\":{",
        good.replace("5.0}", "-1}"),
    ):  # fmt: skip
        assert speeds(bad + "\n") == [], bad


@given(st.text(max_size=80), st.integers(), st.floats())
def test_any_line_is_read(text: str, number: int, rate: float) -> None:
    seen = Speeds("x")
    for bad in (f'{{"coll_perf":{{{text}', line(0, 1.0).replace('"rank":0', f'"rank":{number}'), line(0, 1.0, number)):
        seen.take(bad.encode("utf-8", "surrogatepass") + b"\n")
    seen.take(line(0, 1.0).replace(":1.0}", f":{rate}}}").encode() + b"\n")
    assert all(told.median > 0 for told in seen.told())


def test_the_plugin_s_folder_is_found(tmp_path: Path) -> None:
    def found(**env: str) -> list[str]:
        rank = process(3, pid=1003, cwd=str(tmp_path), env=env)
        return [Path(wanted.path).name for wanted in LogPlaces().of_rank(rank, 0.0) if wanted.stream == "inspector"]

    for folder in ("named", "nccl-inspector-17", "nccl-inspector-unknown-jobid"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}-pid1003.log").write_text("")
        (tmp_path / folder / f"{folder}-pid1004.log").write_text("")
    on = {"NCCL_INSPECTOR_ENABLE": "1"}
    assert found(**on) == ["nccl-inspector-unknown-jobid-pid1003.log"]
    assert found(**on, SLURM_JOB_ID="17") == ["nccl-inspector-17-pid1003.log"]
    assert found(**on, NCCL_INSPECTOR_DUMP_DIR=f"{tmp_path}/named") == ["named-pid1003.log"]
    assert found(NCCL_INSPECTOR_DUMP_DIR=f"{tmp_path}/named") == []
