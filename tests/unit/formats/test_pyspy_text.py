"""py-spy's dumps as files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.formats import BadFormat, pyspy_text
from tests.support.sent import arrived

TEXT = """Process 14927: /opt/train/python -u train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 14927 (idle): "MainThread"
    pthread_cond_wait (libc.so.6)
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    run (train.py:29)
    <module> (train.py:32)
Thread 0x7F1 (active+gil): "loader (3)"
    read_shard (data.py:88)

Process 14928: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Error: Failed to suspend process
Reason: EPERM: Operation not permitted
"""
JSON = [
    {
        "pid": 7, "thread_id": 140, "thread_name": "MainThread", "os_thread_id": 7, "active": False, "owns_gil": False,
        "frames": [{"name": "f", "filename": "/opt/a.py", "line": 3, "module": None, "short_filename": "a.py"}],
    }
]  # fmt: skip


def test_text_of_several_processes() -> None:
    first, second = pyspy_text.read(TEXT, at=3.0)
    assert (first.pid, first.rank_pid, first.at, first.error) == (14927, 14927, 3.0, "")
    assert [(thread.name, thread.active, thread.owns_gil) for thread in first.threads] == [
        ("MainThread", False, False),
        ("loader (3)", True, True),
    ]
    frames = first.threads[0].frames
    assert [(frame.name, frame.file, frame.line, frame.native) for frame in frames] == [
        ("pthread_cond_wait", "libc.so.6", 0, True),
        ("all_reduce", "torch/distributed/distributed_c10d.py", 3252, False),
        ("run", "train.py", 29, False),
        ("<module>", "train.py", 32, False),
    ]
    assert (second.pid, second.threads, second.error) == (14928, [], "failed: Failed to suspend process")


def test_json() -> None:
    (only,) = pyspy_text.read(json.dumps(JSON), at=3.0)
    assert (only.pid, only.threads[0].frames[0].file, only.threads[0].frames[0].line) == (7, "/opt/a.py", 3)


def test_recognition() -> None:
    assert pyspy_text.looks_like(TEXT[:300])
    assert pyspy_text.looks_like(json.dumps(JSON))
    assert not pyspy_text.looks_like("step 1\nProcess finished\n")


@pytest.mark.parametrize("text", ["", "step 1\n", "[]", "{}", "[1, 2]", "[" * 9999])
def test_what_is_no_dump(text: str) -> None:
    with pytest.raises(BadFormat):
        pyspy_text.read(text, at=0.0)


@given(st.text(max_size=200), st.integers(0, 400))
def test_damage_is_read_or_refused(put: str, where: int) -> None:
    for text in (TEXT, json.dumps(JSON)):
        try:
            dumps = pyspy_text.read(text[:where] + put + text[where:], at=0.0)
        except BadFormat:
            continue
        assert dumps
        assert all(arrived(dump) for dump in dumps)


BARE = """Thread 0x7FA6E7C01740 (idle): "MainThread"
    wait (threading.py:302)
    get (queue.py:170)
    __next__ (fairseq/data/iterators.py:648)
    train (fairseq_cli/train.py:274)
Thread 0x7FA6E7C01741 (active): "worker"
    run (threading.py:870)
"""


def test_threads_without_their_process() -> None:
    assert pyspy_text.looks_like(BARE)
    (dump,) = pyspy_text.read(BARE, at=9.0, pid=-1)
    assert (dump.pid, [thread.name for thread in dump.threads]) == (-1, ["MainThread", "worker"])
    assert dump.threads[0].frames[0].name == "wait"


@pytest.mark.parametrize(
    "head", ['Thread 0x7f (most recent call first):\n  File "a.py", line 1 in f\n', "Thread 3 died\n"]
)
def test_other_words_about_threads_are_no_dump(head: str) -> None:
    assert not pyspy_text.looks_like(head)
