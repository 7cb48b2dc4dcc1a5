"""Commands on nodes: unreachable nodes, consent, ``--json`` and exit codes are the same for all."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hangtop.cli import triage
from hangtop.cli.stacks import command as stacks
from hangtop.cli.stacks import stacks_reply
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node, Rank
from hangtop.diagnosis.stacks.merge import merge
from hangtop.session.options import SessionOptions
from tests.support.made import process
from tests.support.stacks import scenario
from tests.unit.cli.test_main import run


@pytest.mark.parametrize("words", ["flame --seconds 1 --json", "stacks --json"])
def test_no_node_reachable_is_exit_code_3_with_the_reason(words: str, tmp_path: Path) -> None:
    done = run(*words.split(), "--batch", "127.0.0.1:1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "nothing listens at 127.0.0.1 port 1" in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing is saved"


@pytest.mark.parametrize(("words", "patience"), [("", 3), ("--patience 2", 2), ("--patience 300", 300)])
def test_triage_has_the_patience_that_was_asked_for(
    words: str, patience: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def ended(options: SessionOptions, *_: object) -> None:
        given.append(options.patience)
        raise click.Abort

    monkeypatch.setattr(triage, "_triage", ended)
    CliRunner().invoke(triage.triage, ["--watch", "3", *words.split(), "node1"])
    assert given == [patience]


def job(world_size: int = 2) -> Job:
    ranks = tuple(Rank(f"node{rank}", process(rank)) for rank in range(2))
    nodes = {name: Node(name, seen_at=1.0) for name in ("node0", "node1")}
    return Job(now=1000.0, watched=4.0, live=True, nodes=nodes, ranks=ranks, world_size=world_size)


def test_stacks_as_json_and_as_text() -> None:
    reader = scenario("reader")
    reply = stacks_reply(job(3), merge([(rank, each) for rank in (0, 1) for each in reader[rank]]), None)
    answer = json.loads(json.dumps(reply.document))
    assert [group["folded"] for group in answer["groups"]] == ["1", "0"]
    odd = answer["ranks"][1]
    assert (odd["rank"], odd["node"], odd["kind"], odd["waits"]) == (1, "node1", "data", "storage")
    assert odd["where"].startswith("Shards.read_shard (")
    assert answer["missing"] == [2]
    assert "rank 2: not found on these nodes" in list(reply.lines)
    assert stacks.name == "stacks"
