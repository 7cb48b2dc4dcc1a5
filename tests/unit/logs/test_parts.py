"""Parts of the reader of logs that are left out, and how a dump of frames names what is at work."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from collectors.node.logs import parts
from collectors.node.logs.following.source import LogSource
from collectors.node.logs.parser import LogParser
from collectors.node.shared import Shared
from collectors.samples.control import Settings
from collectors.samples.logs import LogEvent, LogFile

XID = "NVRM: Xid (PCI:0000:18:00): 79, pid=12, name=python, GPU has fallen off the bus.\n"
RAISED = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: x\nINFO next\n'
LINES = f"Training completed\n{XID}"


def test_a_part_that_was_left_out_before_is_not_asked_and_that_is_said() -> None:
    parser = LogParser("x.log", rank=3, left_out=["endings"])
    events = parser.feed(LINES.encode())
    assert [event.kind for event in events] == ["log.unread", "kernel.xid"]
    assert (events[0].data, events[0].rank) == ({"part": "endings"}, 3)
    assert "held up hangtop's interpreter" in events[0].text


@pytest.mark.parametrize("part", ["endings", "records", ""])
def test_a_new_node_side_leaves_out_what_ended_the_last(tmp_path: Path, part: str) -> None:
    log, other = tmp_path / "train.log", tmp_path / "other.log"
    for path in (log, other):
        path.write_text(
            LINES + 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: x\nINFO next\n'
        )
    shared = Shared()
    shared.unread = ((parts.mark(str(log)), part),)
    source = LogSource(shared)
    source.configure(Settings(1.0, 0.0, None, [str(tmp_path / "*.log")], [], []))
    samples = list(source.look(time.time()))
    told = {
        path.name: {sample.kind for sample in samples if isinstance(sample, LogEvent) and sample.source == str(path)}
        for path in (log, other)
    }
    every = {"job.finished", "kernel.xid", "python.exception"}
    lost = {"endings": {"job.finished"}, "records": {"python.exception"}, "": every}[part]
    assert told["other.log"] == every
    assert told["train.log"] == (every - lost) | ({"log.unread"} if part else set())
    whys = {sample.path: sample.why for sample in samples if isinstance(sample, LogFile)}
    assert ("it is not read any more" in whys[str(log)]) == (part == "")
    assert whys[str(other)] == ""
