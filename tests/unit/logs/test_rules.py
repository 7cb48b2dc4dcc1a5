"""Every rule by its own sample: its event, that no other rule takes the line, and the time that its pattern needs."""

from __future__ import annotations

import re
import time

import pytest

from collectors.node.logs.literals import required
from collectors.node.logs.matching import Scanner
from collectors.node.logs.prefixes import SEEN
from collectors.node.logs.rule import Example, Rule, apply, fields, number, numbers
from collectors.node.logs.rules import FALLBACK, SUBJECTS
from collectors.samples.logs import LogEvent
from tests.support.logs import kinds, parse

RULES = [(subject, rule) for subject, rules in SUBJECTS.items() for rule in rules]
SECONDS = 0.02
"""CPU time that a pattern may take for the longest text that it sees, full of its own literals."""
TOGETHER = {
    "torch.out_of_memory", "torch.cuda_error", "python.exception", "job.size",
    "host.shared_memory", "log.error", "process.signal",
}  # fmt: skip
"""Kinds that a sample may give beside its own: an exception's line is one, and a report names its cause."""


def example(rule: Rule) -> Example:
    assert rule.example is not None
    return rule.example


def by_id(value: object) -> str:
    return value.id if isinstance(value, Rule) else str(value)


def has(event: LogEvent, rule: Rule) -> bool:
    found = {**event.data, "by_host": event.host, "by_rank": event.rank, "by_pid": event.pid}
    return event.kind == rule.kind and all(found.get(name) == value for name, value in example(rule).expect.items())


@pytest.mark.parametrize(("subject", "rule"), RULES, ids=by_id)
def test_its_sample_gives_the_event(subject: str, rule: Rule) -> None:
    events = parse(example(rule).sample + "\n")
    assert any(has(event, rule) for event in events), [(event.kind, event.data) for event in events]
    assert {event.kind for event in events} - {rule.kind} <= TOGETHER, "no other rule takes it for its own"


@pytest.mark.parametrize(("subject", "rule"), RULES, ids=by_id)
def test_no_earlier_rule_of_the_subject_reads_its_sample(subject: str, rule: Rule) -> None:
    for other in SUBJECTS[subject]:
        if other is rule:
            return
        match = re.search(other.pattern, example(rule).sample)
        assert match is None or other.also or rule.also or apply(other, match) is None, other.id


@pytest.mark.parametrize(("subject", "rule"), RULES, ids=by_id)
def test_its_lines_are_found_by_literals(subject: str, rule: Rule) -> None:
    for pattern, text in ((rule.pattern, example(rule).sample), (rule.begins, example(rule).sample.split("\n")[0])):
        literals = required(pattern) if pattern else ("",)
        assert literals
        if pattern:
            assert min(map(len, literals)) >= 3
        if re.search(pattern, text):
            assert any(literal in text for literal in literals)


@pytest.mark.parametrize(("subject", "rule"), RULES, ids=by_id)
def test_it_takes_linear_time(subject: str, rule: Rule) -> None:
    pattern = re.compile(rule.pattern)
    pumps = [
        *required(rule.pattern)[:4],
        example(rule).sample.split("\n")[0],
        example(rule).sample[: len(example(rule).sample) // 2],
    ]
    for pump in pumps:
        text = ((pump + " ") * (SEEN // (len(pump) + 1) + 1))[:SEEN]
        took = min(_seconds(pattern, text) for _ in range(3))
        assert took < SECONDS * (5 if subject == FALLBACK else 1), (pump, took)


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    began = time.thread_time()
    pattern.search(text)
    return time.thread_time() - began


def test_names_are_unique() -> None:
    for rules in SUBJECTS.values():
        assert len({rule.id for rule in rules}) == len(rules)


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
        )
    )


@pytest.mark.parametrize("prefix", ["[rank3]: ", "[default3]:[rank3]: ", "3: ", "[1,3]<stderr>: ", "gpu-7: [rank3]: "])
def test_the_same_behind_a_label(prefix: str) -> None:
    text = "[W TCPStore.cpp:106] [c10d] sendBytes failed on SocketImpl(fd=5): Broken pipe\n"
    assert [(event.kind, event.rank) for event in parse(prefix + text)] == [("torch.store_lost", 3)]


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
    ("pattern", "literals"),
    [
        (r"[Cc]onnect(?:ion)? to \d+", {"Connect", "connect"}),
        (r"(?:abcd|efgh)\d", {"abcd", "efgh"}),
        (r"x?\d+ out of memory\b", {" out of memory"}),
        (r"(?i:abcd)\d*", set()),
    ],
)
def test_literals_of_a_pattern(pattern: str, literals: set[str]) -> None:
    assert set(required(pattern)) == literals


def test_a_search_finds_the_lines_with_a_literal_and_no_others() -> None:
    scanner = Scanner([(b"out of memory", 1), (b"Xid (", 2), (b"of memory: ", 4)])
    text = b"step 1\nout of memory: 3\nstep 2\nNVRM: Xid (PCI\n"
    assert scanner.hits(text) == {7: 5, 31: 2}
    assert scanner.hits(b"step 9\n" * 500) == {}
    assert scanner.mask(b"x Xid (") == 2
