"""The answer: its JSON as ``docs/findings.md`` has it, its text for people, its exit code."""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import pytest

from hangtop.cli.answer import Answer, as_json, as_text
from hangtop.diagnosis.finding import Evidence, Finding, NextStep, Observer, Outcome, Unknown, Verdict
from hangtop.diagnosis.job import Job
from hangtop.diagnosis.node import Node, Rank
from hangtop.diagnosis.phrasing import outcome_words
from tests.support.made import process
from tests.support.readme import ROOT

LOOK = Evidence(Observer.STACKS, "py-spy rank 3", 995.0, "read_shard (data.py:88)\nmain (train.py:3)")
STUCK = Finding(
    "rank_stuck_in_data", "critical", 0.956, "rank 3 waits in read_shard (data.py:88)", ranks=(3,), nodes=("node2",),
    gpus=("node2:1",), evidence=(LOOK,) * 6, advice="Look at the storage.",
    next=(NextStep("d", "hangtop stacks node2 --rank 3"),),
)  # fmt: skip
HUNG = Verdict(
    "hung",
    "rank 3 on node2 holds up 3 others: read_shard (data.py:88)",
    (STUCK, Finding("watchdog_timeout", "warning", 0.5, "a consequence", cause="rank_stuck_in_data")),
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
    first = answer["findings"][0]
    assert answer | {"findings": [], "waits": []} == {
        "schema": 2, "taken_at": "1970-01-01T00:16:40.000Z", "took_s": 6.2, "verdict": "hung", "summary": HUNG.summary,
        "motion": {"moving": None, "proof": "", "last_step": None, "last_step_at": None},
        "stands_since": None,
        "job": {
            "world_size": 4, "ranks_seen": 4, "processes_unnumbered": [],
            "nodes": [
                {"name": "node1", "state": "live", "why": "", "ranks": [0, 1], "gpus": 0},
                {"name": "node2", "state": "lost", "why": "no word for 8 s", "ranks": [2, 3], "gpus": 0},
            ],
        },
        "findings": [],
        "unknown": [{"source": "kernel log", "nodes": ["node2"], "why": "dmesg needs root here"}],
        "waits": [],
    }  # fmt: skip
    assert first | {"evidence": [], "confidence": 0} == {
        "kind": "rank_stuck_in_data", "severity": "critical", "certainty": "proven", "confidence": 0,
        "summary": STUCK.summary, "ranks": [3], "processes": [], "nodes": ["node2"], "gpus": ["node2:1"], "ports": [],
        "evidence": [], "advice": "Look at the storage.", "cause": "",
        "next": [{"key": "d", "command": "hangtop stacks node2 --rank 3"}],
    }  # fmt: skip
    assert first["evidence"] == [{"source": LOOK.source, "at": "1970-01-01T00:16:35.000Z", "text": LOOK.text}] * 6
    assert answer["findings"][1]["cause"] == "rank_stuck_in_data"


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_the_exit_code_of_each_verdict_is_the_one_in_the_readme(outcome: Outcome) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"\| {outcome_words(outcome).upper()} \|.*\| (\d) \|", readme)
    assert _answer(Verdict(outcome, "")).exit_code == int(code)


def test_no_node_reachable_is_its_own_exit_code() -> None:
    nodes = {"node1": Node("node1", "lost", "no route to host")}
    assert _answer(Verdict("unknown", ""), nodes=nodes, ranks=()).exit_code == 3


def test_the_text_is_plain_when_piped_and_has_the_proof() -> None:
    text = as_text(_answer(), colour=False)
    assert "\x1b" not in text
    assert text.splitlines()[:2] == [f"HUNG  {HUNG.summary}", "1 of 2 nodes, 4 of 4 ranks, watched 4 s; took 6.2 s"]
    for part in (
        "   │   read_shard (data.py:88)\n", "and 2 more (--json has all)", "→ Look at the storage.",
        "$ hangtop stacks node2 --rank 3", "follows from rank_stuck_in_data",
        "- kernel log on node2: dmesg needs root here",
    ):  # fmt: skip
        assert part in text
