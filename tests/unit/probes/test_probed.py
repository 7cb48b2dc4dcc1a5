"""A probe's answer: kept and compared, told as lines, its square of pairs."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.samples.probes import NcclTest, ProbeFigure, ProbePair, ProbeRank, ProbeReport
from hangtop.diagnosis.job import Job, Node
from hangtop.session.probed import kept
from hangtop.session.probed.answer import as_json, judged
from hangtop.session.probed.heat import heat_map, part_maps
from hangtop.session.probed.lines import answer_lines
from hangtop.session.probed.shades import plain

NODES = ("node1", "node2", "node3")


def report(busbw: float = 1.0, pairs: dict[tuple[str, str], float | None] | None = None) -> ProbeReport:
    figure = ProbeFigure("all_reduce", 1 << 20, 0.001, busbw / 1.5, busbw, [], [])
    ranks = [ProbeRank(i, name, "done", "", 1.0) for i, name in enumerate(NODES)]
    found = [ProbePair(a, b, speed, 1e-4, 0.0, "") for (a, b), speed in (pairs or {}).items()]
    return ProbeReport("gloo", 3, 1_763_606_820.0, 1.0, "done", "", ranks, [figure], found, 1e-4, {})


def job() -> Job:
    return Job(0.0, 10.0, True, {name: Node(name) for name in NODES})


def lines(found: ProbeReport, previous: kept.Previous | None = None) -> str:
    return "\n".join(plain(answer_lines(judged(found, job(), previous))))


# --- kept --------------------------------------------------------------------------------------------------------


def test_what_is_kept_comes_back_for_the_same_nodes_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    last = kept.as_previous(report(4.8, {("node1", "node2"): 1.5, ("node1", "node3"): None}))
    kept.save(kept.path_of("gloo", NODES), last, NODES)
    assert kept.load(kept.path_of("gloo", NODES[::-1])) == last
    assert last.pairs == {("node1", "node2"): 1.5}
    assert kept.load(kept.path_of("nccl", NODES)) is None
    assert kept.load(kept.path_of("gloo", NODES[:2])) is None
    assert [path.suffix for path in kept.folder().iterdir()] == [".json"]


@given(
    st.binary(max_size=200)
    | st.sampled_from([b'{"format": 1}', b'{"format": 1, "at": "x", "results": [], "pairs": []}'])
)
def test_a_file_that_is_none_of_ours_is_as_none(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "kept.json"
    path.write_bytes(data)
    assert kept.load(path) is None


def test_a_folder_that_cannot_be_written_is_an_error_to_tell(tmp_path: Path) -> None:
    (tmp_path / "probes").write_text("a file, where a folder should be")
    with pytest.raises(OSError, match="probes"):
        kept.save(tmp_path / "probes" / "x.json", kept.as_previous(report()), NODES)


def test_the_last_time_stands_beside_the_figure_in_text_and_json() -> None:
    previous = kept.as_previous(report(4.8))
    assert "busbw 1.2 GB/s, last time 4.8" in lines(report(1.2), previous)
    assert "last time" not in lines(report(1.2))
    document = json.loads(json.dumps(as_json(judged(report(1.2), job(), previous))))
    assert document["previous"]["results"] == [{"op": "all_reduce", "bytes": 1 << 20, "busbw_GBps": 4.8}]
    assert as_json(judged(report(1.2), job()))["previous"] is None


def test_a_pair_that_fell_is_told_with_what_it_was() -> None:
    two: dict[tuple[str, str], float | None] = {("node1", "node2"): 1.0, ("node2", "node3"): 0.4}
    previous = kept.as_previous(report(pairs={("node1", "node2"): 1.1, ("node3", "node2"): 1.2}))
    (line,) = [
        line for line in lines(report(pairs=two), previous).splitlines() if "last time 1" in line and " - " in line
    ]
    assert line.startswith("node2 - node3")
    assert line.endswith("last time 1.2 GB/s")


# --- the square --------------------------------------------------------------------------------------------------


def test_a_slow_node_is_a_row_and_a_column_without_any_colour() -> None:
    speeds: dict[tuple[str, str], float | None] = {
        ("node1", "node2"): 1.0, ("node1", "node3"): 0.05, ("node2", "node3"): None,
    }  # fmt: skip
    _, head, *rows = plain(heat_map(report(pairs=speeds).pairs))
    assert head.split() == list(NODES)
    assert rows == [
        "node1           █ 1.0  ▁ 0.05",
        "node2   █ 1.0               ×",
        "node3  ▁ 0.05       ×        ",
    ]


def test_pairs_that_were_not_measured_are_dots_and_one_pair_is_no_square() -> None:
    some = report(pairs={("node1", "node2"): 1.0, ("node2", "node3"): 0.5}).pairs
    assert "·" in list(plain(heat_map(some)))[2]
    assert list(heat_map(some[:1])) == []


def test_many_nodes_fit_a_screen_with_a_glyph_a_cell() -> None:
    names = [f"rack7-gpu{number:03}" for number in range(40)]
    pairs = [ProbePair(a, b, 1.0 if "007" not in a + b else 0.1, None, None, "") for a, b in combinations(names, 2)]
    _, head, *rows = plain(heat_map(pairs))
    assert max(map(len, (head, *rows))) <= 120
    assert rows[7].count("▁") == 39
    assert rows[8].count("▁") == 1


@given(st.lists(st.tuples(st.sampled_from("abcdefghijklmnop"), st.sampled_from("ABCDEF"),
                          st.none() | st.floats(0, 1e4)), max_size=40))  # fmt: skip
def test_any_pairs_make_a_square(some: list[tuple[str, str, float | None]]) -> None:
    pairs = [ProbePair(a, b, speed, None, None, "") for a, b, speed in some]
    assert len({len(line) for line in list(plain(heat_map(pairs)))[2:]}) <= 1


def part(a: str, b: str, speed: float | None) -> ProbePair:
    return ProbePair(a, b, speed, 1e-4, 0.0, "" if speed is not None else "did not finish")


def test_gpus_and_ports_have_their_own_squares_in_lines_and_json() -> None:
    found = report()._replace(
        by_gpu=[part(f"node1:{i}", f"node2:{i}", 40.0 if i != 2 else 2.0) for i in range(3)],
        by_port=[part("node1:eth0", "node2:eth0", None), part("node1:enp225s0np0", "node2:eth1", 1.0)],
        untried=["node2: node1 has nothing in the network of eth2"],
    )
    text = lines(found)
    assert "local ranks of node2 (rows) with those of node1 (columns), GB/s" in text
    assert "\n2       ·       ·   ▁ 2.0\n" in text
    assert "\n     enp225s0np0        eth0\n" in text
    assert "\neth0           ·           ×\n" in text
    assert "node1:eth0 - node2:eth0" in text
    assert "not tried: node2: node1 has nothing in the network of eth2" in text
    said = as_json(judged(found, job()))
    assert [pair["a"] for pair in said["port_pairs"]] == ["node1:eth0", "node1:enp225s0np0"]
    assert said["gpu_pairs"][2]["busbw_GBps"] == 2.0
    assert said["untried"] == found.untried


def test_gpus_of_one_node_are_a_square_of_their_own() -> None:
    pairs = [part(f"node1:{a}", f"node1:{b}", 1.0) for a, b in combinations(range(3), 2)]
    (square,) = part_maps("GPUs", pairs)
    assert next(iter(plain(square))).startswith("GPUs of node1 with each other")
    assert len(square) == 5
    assert not list(part_maps("GPUs", pairs[:1]))


# --- lines -------------------------------------------------------------------------------------------------------


def test_what_nccl_said_and_what_nccl_tests_measured_is_told() -> None:
    said = {"version": "2.27.5", "network": "Socket", "gdr": "off", "channels": "2"}
    figure = ProbeFigure("all_reduce", 1 << 29, 0.002, 330.0, 330.0, [], [])
    found = report()._replace(
        backend="nccl",
        network={"node1": said, "node2": said, "node3": {**said, "network": "IB"}},
        tested=[
            NcclTest("node1", "/usr/local/bin/all_reduce_perf", 8, [figure], 0, ""),
            NcclTest("node2", "all_reduce_perf", 8, [], None, "did not end within 40 s"),
            NcclTest("node3", "/usr/local/bin/all_reduce_perf", 4, [figure._replace(size=1 << 20)], 0, ""),
        ],
    )
    text = lines(found)
    assert "node1, node2: NCCL 2.27.5; network Socket; GPU Direct RDMA off; 2 channels" in text
    assert "node3: NCCL 2.27.5; network IB" in text
    assert "node1 by itself: /usr/local/bin/all_reduce_perf, 8 GPUs" in text
    assert "330.000" in text
    assert "node2 by itself: all_reduce_perf, 8 GPUs: did not end within 40 s" in text
    together = "mpirun -np 12 -H node1:8,node3:4 /usr/local/bin/all_reduce_perf -b 536870912 -e 536870912 -f 2 -g 1"
    assert together in text
    assert as_json(judged(found, job()))["nccl_tests_across"] == together
    alone = found._replace(tested=found.tested[:2])
    assert "mpirun" not in lines(alone)


def test_nothing_is_expected_of_unknown_hardware() -> None:
    assert "not known" in lines(report())
    assert as_json(judged(report(), job()))["expected"] is None
