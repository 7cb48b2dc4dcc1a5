"""Labels and times in front of a line, as launchers, containers and loggers write them."""

import json
import time

import pytest

from collectors.node.logs import prefixes as line
from collectors.node.logs import times
from collectors.node.logs.parser import LogParser
from tests.support.logs import NOW, only, parse


def one(text: str) -> line.LabelledLine:
    records = list(line.records(text.encode(), 1, NOW))
    assert len(records) == 1
    return records[0]


LABELS = {
    "[rank3]: x": line.LogWriter(rank=3),
    "[rank3]:[E1121 00:12:20.8 x.cpp:1] y": line.LogWriter(rank=3),
    "[default3]:x": line.LogWriter(local_rank=3),
    "[trainer3]:[rank7]: x": line.LogWriter(rank=7, local_rank=3),
    "12: x": line.LogWriter(rank=12),
    "[1,3]<stderr>: x": line.LogWriter(rank=3),
    "[3]<stdout>:x": line.LogWriter(rank=3),
    "node-7: [rank3]: x": line.LogWriter(rank=3, host="node-7"),
    "worker3.cluster: x": line.LogWriter(host="worker3.cluster"),
    "rank 3: x": line.LogWriter(rank=3),
    "Rank3 | x": line.LogWriter(rank=3),
    "[pod/trainer-1/main] x": line.LogWriter(host="trainer-1"),
    "2026-11-21T00:12:21.123456789Z stderr F [rank3]: x": line.LogWriter(rank=3),
    "(RayTrainWorker pid=615, ip=10.72.7.6) x": line.LogWriter(host="10.72.7.6", pid=615),
    "[2026-11-21 00:12:21,123] [rank3]: x": line.LogWriter(rank=3),
    "(EngineCore_0 pid=232) ERROR 08-23 08:25:25 [core.py:700] x": line.LogWriter(pid=232),
    "18:11:06.680 [rank4]:[E205 18:11:06.3 x.cpp:1] y": line.LogWriter(rank=4),
    "RuntimeError: x": line.LogWriter(),
    "ERROR: x": line.LogWriter(),
    "torch.distributed.DistStoreError: x": line.LogWriter(),
    "12:34:56 x": line.LogWriter(),
    "GPU0: x": line.LogWriter(),
    "step10: x": line.LogWriter(),
    "  File x": line.LogWriter(),
    "": line.LogWriter(),
}


@pytest.mark.parametrize("text", LABELS)
def test_labels(text: str) -> None:
    assert one(text).stream == LABELS[text]


def test_a_logger_s_words_go_and_the_traceback_s_indentation_stays() -> None:
    assert one('(W pid=2) ERROR 08-23 08:25:25 utils.py:226]   File "a.py", line 1').text == '  File "a.py", line 1'


def test_escapes_and_bad_bytes() -> None:
    assert one("\x1b[31m[rank1]:\x1b[0m \x1b]0;title\x07bad\x00").text == "bad"
    assert next(iter(line.records(b"[rank1]: \xff\xfe", 1, NOW))).text == "\ufffd\ufffd"


def test_json_around_a_line() -> None:
    docker = one('{"log":"[rank3]: x\\n","stream":"stderr","time":"2026-11-21T00:12:21.5Z"}')
    assert (docker.stream.rank, docker.text) == (3, "x")
    assert docker.at is not None
    assert one('{"loss": 3}').text == '{"loss": 3}'
    assert one("{" * 3000).text.startswith("{{")


def test_lines_of_several_ranks_in_one() -> None:
    records = list(line.records(b"[rank0]: first part of it[rank1]: Traceback (most recent call last):", 4, NOW))
    assert [(r.stream.rank, r.text, r.number) for r in records] == [
        (0, "first part of it", 4),
        (1, "Traceback (most recent call last):", 4),
    ]


TIMES = {
    "2026-11-21 00:12:21,5 x": (2026, 11, 21, 0, 12, 21.5),
    "2026-11-21_00:12:21": (2026, 11, 21, 0, 12, 21.0),
    "[E1121 00:12:21.250000000 x.cpp:1]": (2026, 11, 21, 0, 12, 21.25),
    "E1225 00:12:21.250000 77 x.py:1]": (2025, 12, 25, 0, 12, 21.25),
    "[rank0]:[E321 02:07:08.500000000 x.cpp:1]": (2026, 3, 21, 2, 7, 8.5),
    "Nov 21 00:12:21 host kernel: x": (2026, 11, 21, 0, 12, 21.0),
    "[Sat Nov 21 00:12:21 2026] x": (2026, 11, 21, 0, 12, 21.0),
    "11/21/2026 00:12:21 - INFO - x": (2026, 11, 21, 0, 12, 21.0),
}


@pytest.mark.parametrize("text", TIMES)
def test_times(text: str) -> None:
    *whole, second = TIMES[text]
    expected = time.mktime((*whole, int(second), 0, 0, -1)) + second % 1  # type: ignore[arg-type]
    assert times.find(text, NOW) == pytest.approx(expected)


def test_zones() -> None:
    for text in ("2026-11-21T01:12:21+01:00", "2026-11-21T00:12:21Z", "2026-11-20 19:12:21-0500"):
        assert times.find(text, NOW) == 1795219941.0


@pytest.mark.parametrize(
    "text", ["no time", "2026-13-45 00:12:21", "E9921 00:12:21.1 x", "99:99:99", "Foo 11 00:00:00"]
)
def test_what_is_no_time(text: str) -> None:
    assert times.find(text, NOW) is None


def test_a_token_in_a_message_stays_on_the_node() -> None:
    token = "hf_" + "a1B2" * 8
    (event,) = LogParser("x.log").feed(f"RuntimeError: 401 for {token}\n".encode())
    assert token not in str(event)
    assert "401 for <redacted>" in event.text


def test_a_number_of_thousands_of_digits_is_no_number() -> None:
    many = "9" * 5000
    lines = [
        f"node1:1:2 [0] NCCL INFO comm 0xabc rank {many} nranks {many} cudaDev 0 - Init COMPLETE",
        f"[rank{many}]: RuntimeError: CUDA error: out of memory. GPU {many} has a total capacity of {many} GiB",
        f"(train pid={many}) Received a dump signal due to a timeout from rank {many}",
        f"node1:1:2 [0] NCCL INFO AllReduce: opCount {many} count {many} datatype {many} comm 0xabc",
        f"failed (exitcode: -{many}) local_rank: {many} (pid: {many}) of binary: python",
    ]
    events = parse("".join(line + "\n" for line in lines))
    assert len(events) > 1
    json.dumps([event.data for event in events])


RAISED = 'Traceback (most recent call last):\n  File "train.py", line 3, in f\n    main()\n'


@pytest.mark.parametrize(
    "front", ["(VllmWorker rank=3 pid=71) ", "(Worker_TP3 pid=123) ", "[2026-11-22 10:00:00 DP0 TP3] "]
)
def test_a_traceback_and_a_line_of_an_engine_s_worker(front: str) -> None:
    raised = only(
        parse("".join(front + line + "\n" for line in (RAISED + "ValueError: x").split("\n"))), "python.exception"
    )
    assert (raised.rank, raised.data["type"], raised.data["frames"]) == (3, "ValueError", ["train.py:3 in f"])
    alone = only(parse(front + "RuntimeError: CUDA error: device-side assert triggered\n"), "torch.cuda_error")
    assert alone.rank == 3


@pytest.mark.parametrize(("front", "host"), [("2026-11-22T10:00:00+0000 n7 python[71]: ", "n7"), ("[worker 7] ", "")])
def test_a_machine_in_front(front: str, host: str) -> None:
    raised = parse("".join(front + line + "\n" for line in (RAISED + "MemoryError").split("\n")))
    assert {(event.kind, event.host) for event in raised} == {("python.exception", host), ("host.memory", host)}
