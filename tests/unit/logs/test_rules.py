"""Every rule by its own sample: its event, that no other rule takes the line, its words, and the time that it needs."""

from __future__ import annotations

import itertools
import re
import time
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from collectors.node.logs.prefixes import SEEN
from collectors.node.logs.rule import Rule, fields, number, numbers
from collectors.node.logs.rules import FALLBACK, RULES
from collectors.samples.logs import LogEvent
from tests.support.logs import kinds, parse

SECONDS = 0.02
"""CPU time that a pattern may take for the longest text that it sees, full of its own words."""
TOGETHER = {"python.exception", "job.size", "process.signal"}
"""Kinds that a sample may give beside its own: an exception's line is one."""


def by_sample(rule: Rule) -> str:
    return f"{rule.kind} {rule.example.sample[:40]}"


every_rule = pytest.mark.parametrize("rule", RULES, ids=by_sample)


def has(event: LogEvent, rule: Rule) -> bool:
    found = {**event.data, "by_host": event.host, "by_rank": event.rank, "by_pid": event.pid}
    return event.kind == rule.kind and all(found.get(name) == value for name, value in rule.example.expect.items())


@every_rule
def test_its_sample_gives_the_event(rule: Rule) -> None:
    events = parse(rule.example.sample + "\n")
    assert any(has(event, rule) for event in events), [(event.kind, event.data) for event in events]
    assert {event.kind for event in events} - {rule.kind} <= TOGETHER, "no other rule takes it for its own"


@every_rule
def test_no_earlier_rule_of_the_kind_reads_its_sample(rule: Rule) -> None:
    for other in itertools.takewhile(lambda one: one is not rule, RULES):
        assert other.kind != rule.kind or other.apply(rule.example.sample) is None, other.pattern


@every_rule
def test_whatever_its_patterns_match_has_one_of_its_words(rule: Rule) -> None:
    words = rule.words.split("|")
    assert not re.search(r"\d", rule.words)
    assert min(map(len, words)) > 2
    for pattern in filter(None, (rule.pattern, rule.begins)):
        without = [text for text in texts(_parser.parse(pattern)) if not any(word in text for word in words)]
        assert not without, without[:3]


ANY = "\0"
"""Stands for characters of which nothing is known."""


def texts(sequence: Any) -> list[str]:
    """What a pattern matches, with :data:`ANY` for what varies."""
    found = [""]
    for code, value in sequence:
        found = list(dict.fromkeys(text + more for text in found for more in _texts(code, value)))
        assert len(found) < 20_000
    return found


def _texts(code: Any, value: Any) -> list[str]:
    if code is c.LITERAL:
        return [chr(value)]
    if code is c.IN and all(kind is c.LITERAL for kind, _ in value) and len(value) <= 2:
        return [chr(letter) for _, letter in value]
    if code is c.SUBPATTERN:
        return texts(value[-1]) if not value[1] else [ANY]
    if code is c.BRANCH:
        return [text for one in value[1] for text in texts(one)]
    if code in (c.MAX_REPEAT, c.MIN_REPEAT):
        least, most, inner = value
        if most == 1 or least:
            return [*([""] if not least else []), *(text + ANY * (most > 1) for text in texts(inner))][:40]
        return [ANY]
    return [""] if code in (c.AT, c.ASSERT, c.ASSERT_NOT) else [ANY]


@every_rule
def test_it_takes_linear_time(rule: Rule) -> None:
    sample = rule.example.sample
    for pump in (*rule.words.split("|")[:4], sample.split("\n")[0], sample[: len(sample) // 2]):
        text = ((pump + " ") * (SEEN // (len(pump) + 1) + 1))[:SEEN]
        took, half = (min(_seconds(rule.pattern, text[:size]) for _ in range(3)) for size in (SEEN, SEEN // 2))
        # on a busy machine all takes longer; what is quadratic takes four times as long for twice the text
        assert took < SECONDS * (5 if rule.kind == FALLBACK else 1) or took < 3 * half, (pump, took, half)


def _seconds(pattern: str, text: str) -> float:
    began = time.thread_time()
    re.search(pattern, text)
    return time.thread_time() - began


def test_ordinary_lines_say_nothing() -> None:
    assert not kinds(
        parse(
            "step 100 loss 2.31 error 0.02\nEpoch 3:  45%|████▌     | 45/100 [00:12<00:15, 3.6it/s]\n"
            "INFO: link up the data set to the model\nwarnings.warn('x')\nsaving checkpoint, rank 0, to /ckpt\n"
            "2026-11-21 03:35:37,986 INFO root: killed time with 3 retries\nwandb: run finished\n"
            "gpu1:71:99 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
            "[ 8.3] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.158.01\n"
            "[ 8.3] amdgpu 0000:1c:00.0: amdgpu: SMU is initialized successfully!\n"
            "systemd[1]: Started Session 7 of user root.\n"
            "wandb: WARNING api.wandb.ai: Temporary failure in name resolution\n"
        )
    )


def test_a_line_that_says_two_things() -> None:
    said = "RuntimeError: NCCL communicator was aborted on rank 1. CUDA error: an illegal memory access was encountered"
    assert kinds(parse(said + "\n")) == ["torch.cuda_error", "python.exception"]


def test_numbers_beyond_bounds_are_none() -> None:
    assert number("9" * 5000) is None
    assert number("18446744073709551615") == -1
    assert numbers("[0-2,7]") == [0, 1, 2, 7]
    match = re.match(r"(?P<task>\d+) (?P<peer_2>\w+) (?P<bus_id>\S+) (?P<signal>\w+)", "12 n7 00000000:5F:00.0 SIGKILL")
    assert match is not None
    assert fields(match) == {"task": 12, "peer": "n7", "bus_id": "0000:5f:00", "signal": "KILL"}


@pytest.mark.parametrize(
    ("told", "signature"),
    [
        ("NET/Socket : peer 10.0.0.1<4> message truncated : receiving 8 bytes instead of 4", "truncated"),
        ("socketStartConnect: Connect to 10.0.0.3<43211> failed : Connection refused", "connect_failed"),
    ],
)
def test_what_nccl_said_last_stands_in_the_next_line_of_torchs_exception(told: str, signature: str) -> None:
    """ProcessGroupNCCL appends ``ncclGetLastError`` to its own message (torch c10d/NCCLUtils.cpp)."""
    head = "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
    (event,) = [event for event in parse(f"{head}{told}\nException raised from x\n") if event.kind == "nccl.warn"]
    assert event.data["signature"] == signature
