"""The answer: its JSON as ``docs/findings.md`` has it, its text for people, its exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hangtop.cli.answer import Answer, as_json, as_text
from hangtop.diagnosis.finding import CONFIDENCE, Evidence, Finding, NextStep, Observer, Outcome, Unknown, Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node, Rank
from tests.support.made import process

HUNG = Verdict(
    "hung",
    "rank 3 on node2 holds up 3 others: read_shard (data.py:88)",
    (
        Finding(
            kind="rank_stuck_in_data",
            severity="critical",
            weight=0.956,
            summary="rank 3 waits in read_shard (data.py:88)",
            ranks=(3,),
            nodes=("node2",),
            gpus=("node2:1",),
            evidence=(Evidence(Observer.STACKS, "py-spy rank 3", 995.0, "read_shard (data.py:88)\nmain (train.py:3)"),)
            * 6,
            advice="Look at the storage.",
            next=(NextStep("d", "hangtop stacks node2 --rank 3"),),
        ),
        Finding("watchdog_timeout", "warning", 0.5, "a consequence", cause="rank_stuck_in_data"),
    ),
    (Unknown("kernel log", ("node2",), "dmesg needs root here"),),
)


def _answer(verdict: Verdict = HUNG, **fields: Any) -> Answer:
    nodes = {
        "node1": Node("node1", "live", seen_at=1000.0),
        "node2": Node("node2", "stale", "no word for 8 s", seen_at=990.0),
    }
    ranks = tuple(Rank(f"node{1 + rank // 2}", process(rank)) for rank in range(4))
    given: dict[str, Any] = {"nodes": nodes, "ranks": ranks, "world_size": 4, **fields}
    return Answer(verdict, Job(now=1000.0, watched=4.0, live=True, **given), 6.24)


def test_the_json_is_what_the_document_says() -> None:
    answer = json.loads(json.dumps(as_json(_answer())))
    assert list(answer) == ["schema", "taken_at", "took_s", "verdict", "summary", "motion", "stands_since", "job",
                            "findings", "unknown", "waits"]  # fmt: skip
    assert (answer["schema"], answer["verdict"], answer["took_s"]) == (2, "hung", 6.2)
    assert answer["taken_at"] == "1970-01-01T00:16:40.000Z"
    assert answer["job"] == {
        "world_size": 4,
        "ranks_seen": 4,
        "processes_unnumbered": [],
        "nodes": [
            {"name": "node1", "state": "live", "why": "", "ranks": [0, 1], "gpus": 0},
            {"name": "node2", "state": "lost", "why": "no word for 8 s", "ranks": [2, 3], "gpus": 0},
        ],
    }
    first = answer["findings"][0]
    assert first["kind"] == "rank_stuck_in_data"
    assert (first["certainty"], first["confidence"]) == ("proven", CONFIDENCE["proven"])
    assert answer["motion"] == {"moving": None, "proof": "", "last_step": None, "last_step_at": None}
    assert answer["stands_since"] is None, "nobody knows since when"
    assert (first["ranks"], first["gpus"], first["ports"]) == ([3], ["node2:1"], [])
    assert first["evidence"][0] == {
        "source": "py-spy rank 3",
        "at": "1970-01-01T00:16:35.000Z",
        "text": "read_shard (data.py:88)\nmain (train.py:3)",
    }
    assert len(first["evidence"]) == 6
    assert first["next"] == [{"key": "d", "command": "hangtop stacks node2 --rank 3"}]
    assert answer["findings"][1]["cause"] == "rank_stuck_in_data"
    assert answer["unknown"] == [{"source": "kernel log", "nodes": ["node2"], "why": "dmesg needs root here"}]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("healthy", 0), ("idle", 0), ("hung", 1), ("slow", 1), ("crashed", 1), ("starting", 1), ("unknown", 1),
        ("waiting", 6),
    ],
)  # fmt: skip
def test_exit_codes(outcome: Outcome, code: int) -> None:
    assert _answer(Verdict(outcome, "")).exit_code == code


def test_no_node_reachable_is_its_own_exit_code() -> None:
    nodes = {"node1": Node("node1", "lost", "no route to host")}
    assert _answer(Verdict("unknown", ""), nodes=nodes, ranks=()).exit_code == 3


def test_the_text_is_plain_when_piped_and_has_the_proof() -> None:
    text = as_text(_answer(), colour=False)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0] == "HUNG  rank 3 on node2 holds up 3 others: read_shard (data.py:88)"
    assert lines[1] == "1 of 2 nodes, 4 of 4 ranks, watched 4 s; took 6.2 s"
    at_hand = as_text(replace(_answer(), took=0.0), colour=False).splitlines()
    assert at_hand[1] == "1 of 2 nodes, 4 of 4 ranks, watched 4 s"
    node, rank = Node("node1", "live", seen_at=1000.0), Rank("node1", process(0))
    alone = _answer(world_size=1, nodes={"node1": node}, ranks=(rank,))
    assert "1 of 1 node, 1 of 1 rank, watched" in as_text(alone, colour=False)
    assert "   │   read_shard (data.py:88)" in lines
    assert "and 2 more (--json has all)" in text
    assert "→ Look at the storage." in text
    assert "$ hangtop stacks node2 --rank 3" in text
    assert "follows from rank_stuck_in_data" in text
    assert "- kernel log on node2: dmesg needs root here" in text
