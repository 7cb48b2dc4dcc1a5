"""Lines as mails, issues and terminals show them: quoted, escaped, coloured, folded, cut."""

import pytest

from collectors.node.logs.lines import quoting
from tests.support.logs import only, parse

CLEANED = {
    "^[[31mValueError: x^[[0m": "ValueError: x",
    "\\u001b[1;31mTraceback\\u001b[0m": "Traceback",
    "[31m[rank0]: x[0m": "[rank0]: x",
    "[36m(actor pid=3)[0m RuntimeError": "(actor pid=3) RuntimeError",
    "took [10m 3s] in [5m]": "took [10m 3s] in [5m]",
    "[10:05<00:01] a[0m]": "[10:05<00:01] a[0m]",
    "if a &lt; b &amp;&amp; c == &quot;d&quot;": 'if a < b && c == "d"',
    "a & b; &foo;": "a & b; &foo;",
}


@pytest.mark.parametrize(("text", "wanted"), CLEANED.items())
def test_colours_and_escapes(text: str, wanted: str) -> None:
    assert quoting.cleaned(text) == wanted


UNQUOTED = {
    ">   File x": "  File x",
    "> > [rank1]: x": "[rank1]: x",
    ">": "",
    ">>> x": ">>> x",
    "`RuntimeError: x`": "RuntimeError: x",
    "**RuntimeError: x**": "RuntimeError: x",
    "*** STEP 1.0 ON n1 ***": "*** STEP 1.0 ON n1 ***",
    "- x": "- x",
}


@pytest.mark.parametrize(("text", "wanted"), UNQUOTED.items())
def test_marks_of_quoting(text: str, wanted: str) -> None:
    assert quoting.unquoted(text) == wanted


def test_a_quoted_traceback_keeps_its_frames() -> None:
    quoted = '> Traceback (most recent call last):\n>   File "a.py", line 3, in f\n>     g()\n> KeyError: 1\n'
    event = only(parse(quoted), "python.exception")
    assert (event.data["type"], event.data["frame"]) == ("KeyError", "a.py:3 in f")


FOLDED = (
    'Traceback (most recent call last):\n  File "/home/someone/a/long/way/down/to/the/folder/of/the/project/t\n'
    'rain.py", line 33, in main\n    work()\nValueError: bad\n'
)


def test_a_folded_frame_is_put_together() -> None:
    event = only(parse(FOLDED), "python.exception")
    assert event.data["frame"] == "/home/someone/a/long/way/down/to/the/folder/of/the/project/train.py:33 in main"


def test_a_short_stranger_ends_a_traceback() -> None:
    event = only(
        parse('Traceback (most recent call last):\n  File "a.py", line 3, in f\nhello there\n'), "python.exception"
    )
    assert event.data["cut"] is True


def test_what_was_left_out_does_not_end_a_traceback() -> None:
    head = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n'
    left_out = head + '...\n  File "b.py", line 4, in g\nKeyError: 1\n'
    assert only(parse(left_out), "python.exception").data["frame"] == "b.py:4 in g"


FRAMES = '  File "a.py", line 3, in f\n    g()\n  File "b.py", line 4, in g\n    h()\n'


def test_frames_alone_are_an_exception_where_they_can_be_nothing_else() -> None:
    assert only(parse(FRAMES), "python.exception").data["cut"] is True
    ranked = "".join(f"[rank3]: {line}\n" for line in ("x", "x", "x", "x", *FRAMES.splitlines()))
    assert only(parse(ranked), "python.exception").rank == 3
    below = "from user code:\n" * 5 + FRAMES  # a compiler's remark
    assert not [event for event in parse(below) if event.kind == "python.exception"]


def test_the_second_half_of_a_head_opens_a_traceback() -> None:
    torn = "step 1\n" * 5 + "cent call last):\n" + FRAMES + "KeyError: 1\n"
    assert only(parse(torn), "python.exception").data["type"] == "KeyError"
    stack = "step 1\n" * 5 + "Stack (most recent call last):\n" + FRAMES
    assert not [event for event in parse(stack) if event.kind == "python.exception"]


TIMEOUT = (
    "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, Timeout(ms)=600)"
)


@pytest.mark.parametrize("length", [45, 60, 75, 90, 98])
def test_a_cut_time_out_is_one(length: int) -> None:
    event = only(parse(TIMEOUT[:length] + "…\n"), "torch.watchdog_timeout")
    assert event.data["torn"] is True
    assert event.data.get("op", "ALLREDUCE") == "ALLREDUCE"


def test_a_time_out_of_which_the_end_is_there() -> None:
    event = only(
        parse("Type=ALLREDUCE, NumelIn=1, Timeout(ms)=600) ran for 700 milliseconds\n"), "torch.watchdog_timeout"
    )
    assert (event.data["ran_ms"], event.data["timeout_ms"]) == (700, 600)


def test_a_time_out_quoted_and_folded_in_mid_word() -> None:
    whole = "[rank3]:[E ProcessGroupNCCL.cpp:616] " + TIMEOUT + " ran for 700 milliseconds before timing out."
    folded = "".join(f"> {whole[at : at + 77]}\n" for at in range(0, len(whole), 77))
    event = only(parse(folded), "torch.watchdog_timeout")
    assert (event.rank, event.data["op"], event.data["ran_ms"]) == (3, "ALLREDUCE", 700)


def test_a_table_of_a_log_viewer_and_a_journal() -> None:
    viewer = only(parse("  | 2024-08-23T22:22:50.870Z | [rank6]: ValueError: x\n"), "python.exception")
    assert viewer.rank == 6
    journal = only(parse("Nov 21 10:00:00 node7 python[12]: RuntimeError: x\n"), "python.exception")
    assert (journal.host, journal.at is not None) == ("node7", True)


def test_typographic_quotes_around_a_file() -> None:
    text = "Traceback (most recent call last):\nFile \u201ca.py\u201d, line 3, in f\nKeyError: 1\n"
    assert only(parse(text), "python.exception").data["frame"] == "a.py:3 in f"


def test_an_exception_of_a_worker_s_own_code_is_no_lost_worker() -> None:
    caught = "KeyError: Caught KeyError in DataLoader worker process 0.\n"
    assert only(parse(caught), "python.exception").data["signature"] == "user"
    lost = "RuntimeError: DataLoader worker (pid(s) 3) exited unexpectedly\n"
    assert only(parse(lost), "python.exception").data["signature"] == "worker_died"


def test_a_quoted_head_without_a_blank() -> None:
    text = '>Traceback (most recent call last):\n  File "a.py", line 3, in f\nKeyError: 1\n'
    assert only(parse(text), "python.exception").data["frame"] == "a.py:3 in f"
