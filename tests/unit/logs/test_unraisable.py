"""Exceptions that Python ignores: said so in front of the traceback, which then is no end of anything."""

from tests.support.logs import of_kind, only, parse

HEAD = "Exception ignored in atexit callback: <function save_table at 0x7f1000aa>"
BODY = (
    "Traceback (most recent call last):",
    '  File "/opt/lib/tables.py", line 48, in save_table',
    "    os.replace(part, whole)",
    "FileNotFoundError: [Errno 2] No such file or directory: '/home/u/table.part' -> '/home/u/table'",
)


def rows(*lines: str, front: str = "") -> str:
    return "".join(f"{front}{line}\n" for line in lines)


def test_what_python_ignores_was_survived() -> None:
    for head in (
        HEAD,
        "Exception ignored in: <function Pool.__del__ at 0x7f10>",
        "Exception ignored while calling deallocator <function Pool.__del__ at 0x7f10>:",
        "Exception ignored on flushing sys.stdout:",
    ):
        assert only(parse(rows(head, *BODY)), "python.exception").data["survived"] is True
        assert only(parse(rows(head, *BODY, front="3: ")), "python.exception").data["survived"] is True
    assert "survived" not in only(parse(rows(*BODY)), "python.exception").data


def test_lines_of_other_ranks_may_stand_between() -> None:
    text = "1: " + HEAD + "\n" + rows("step 8 loss 2.1", "step 9 loss 2.0", front="0: ") + rows(*BODY, front="1: ")
    event = only(parse(text), "python.exception")
    assert (event.rank, event.data["survived"]) == (1, True)


def test_the_next_traceback_is_another_matter() -> None:
    raised = ("Traceback (most recent call last):", '  File "/x/train.py", line 3, in f', "ValueError: bad shard")
    for front in ("", "1: "):
        text = rows(HEAD, *BODY, "the last words of a run", *raised, front=front)
        assert ["survived" in e.data for e in of_kind(parse(text), "python.exception")] == [True, False]
    other = "1: " + HEAD + "\n" + rows(*raised, front="0: ")
    assert "survived" not in only(parse(other), "python.exception").data


def test_the_message_of_an_ignored_exception_tells_of_no_fault() -> None:
    said = (
        "Traceback (most recent call last):",
        '  File "/x/a.py", line 9, in __del__',
        "RuntimeError: CUDA error: bad",
    )
    assert of_kind(parse(rows(*said)), "torch.cuda_error")
    assert not of_kind(parse(rows("Exception ignored in: <function T.__del__ at 0x7f>", *said)), "torch.cuda_error")
