"""``hangtop stacks``: options, JSON and exit code."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from hangtop.cli import stacks
from hangtop.diagnosis.job import Job, Node, Rank
from hangtop.diagnosis.stacks import as_text, merge
from tests.support.made import process
from tests.support.stacks import SCRIPT, TORCH, dump, main_dump, scenario

ALL_REDUCE = f"all_reduce {TORCH}/distributed/distributed_c10d.py:2806"


def job(world_size: int = 2) -> Job:
    ranks = tuple(Rank(rank, f"node{rank}", process(rank)) for rank in range(2))
    nodes = {name: Node(name, seen_at=1.0) for name in ("node0", "node1")}
    return Job(now=1000.0, watched=4.0, live=True, nodes=nodes, ranks=ranks, world_size=world_size)


def test_dumps_belong_to_the_rank_of_their_node_and_process() -> None:
    known = job()
    first, second = (rank.process.pid for rank in known.ranks)
    dumps = [
        ("node0", dump(pid=first)), ("node1", dump(pid=second)), ("node1", dump(pid=999, rank_pid=second)),
        ("node0", dump(pid=12345)),
    ]  # fmt: skip
    assert [rank for rank, _ in stacks._by_rank(known, dumps)] == [0, 1, 1]


def test_the_json_of_groups_and_ranks() -> None:
    reader = scenario("reader")
    merged = merge([(rank, each) for rank in (0, 1) for each in reader[rank]])
    answer = json.loads(json.dumps(stacks._as_json(job(), merged, set())))
    assert [group["folded"] for group in answer["groups"]] == ["1", "0"]
    odd = answer["ranks"][1]
    assert (odd["rank"], odd["node"], odd["kind"], odd["waits"]) == (1, "node1", "data", "storage")
    assert odd["where"].startswith("Shards.read_shard (")
    assert odd["frames"][0] == "⟨reads data⟩"
    assert answer["groups"][0]["frames"][0] == {"text": "⟨reads data⟩", "differs": True}


def test_ranks_that_were_not_found_are_named() -> None:
    merged = merge([(0, main_dump(ALL_REDUCE))])
    assert stacks._missing(job(4), None, merged) == {1, 2, 3}
    assert stacks._missing(job(4), {0, 3}, merged) == {3}


@pytest.mark.parametrize(
    ("entries", "missing", "seen", "code"),
    [
        ([(0, main_dump(ALL_REDUCE))], set(), True, 0),
        ([(0, main_dump(ALL_REDUCE))], {3}, True, 1),
        ([(0, dump(error="denied: EPERM"))], set(), True, 1),
        ([], set(), True, 1),
        ([], set(), False, 3),
    ],
)
def test_the_exit_code(entries: list[tuple[int, object]], missing: set[int], seen: bool, code: int) -> None:
    known = job()
    nodes = {name: Node(name, seen_at=1.0 if seen else None) for name in known.nodes}
    picture = Job(now=1.0, watched=0.0, live=True, nodes=nodes)
    assert stacks._exit_code(picture, merge(entries), missing) == code  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rank", "3-x"], "no ranks"),
        (["--json", "--folded"], "two answers"),
        (["--native", "--read-only"], "pauses every rank"),
        (["--samples", "0"], "samples"),
        (["--signal", "--read-only"], "refuses --signal"),
    ],
)
def test_wrong_usage(words: list[str], said: str) -> None:
    result = CliRunner().invoke(stacks.command, ["node1", *words])
    assert (result.exit_code, said in result.output) == (2, True)


def test_a_holder_is_named_for_people() -> None:
    text = as_text(merge([(1, scenario("lock")[1][0])]))
    assert "waits for a lock, at Cache.lookup" in text
    assert "; thread refresher is at forget_to_come (scenarios.py:" in text
    assert SCRIPT not in text
