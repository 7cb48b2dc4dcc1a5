"""Flight recorder dumps: real ones of torch 2.13, and what NCCL's have besides."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectors.formats import BadFormat, flight_recorder

DUMPS = Path(__file__).parent.parent.parent / "fixtures" / "recorder"


def test_a_hang_of_gloo() -> None:
    dumps = [flight_recorder.read((DUMPS / f"gloo_hang_{n}").read_bytes(), f"gloo_hang_{n}") for n in range(4)]
    assert [dump.rank for dump in dumps] == [0, 1, 2, 3]
    assert [dump.collectives[-1].seq for dump in dumps] == [7, 7, 7, 6]
    last = dumps[0].collectives[-1]
    assert (last.op, last.group, last.group_description) == ("all_reduce", "0", "default_pg")
    assert (last.state, last.retired) == ("scheduled", False)
    assert (last.input_sizes, last.input_dtypes) == ([[4096]], ["Float"])
    assert (last.frames[2].file, last.frames[2].line) == ("/opt/train/gloo_fr.py", 29)
    assert dumps[0].status == {"0": (7, 6)}
    assert dumps[0].at == last.created


def test_a_group_s_status_goes_by_its_name_not_by_the_process_s_number_for_it() -> None:
    dumps = [flight_recorder.read((DUMPS / f"subgroup_{n}").read_bytes(), f"subgroup_{n}") for n in range(4)]
    assert [{group: enqueued for group, (enqueued, _) in dump.status.items()} for dump in dumps] == [
        {"0": 4, "1": 4},
        {"0": 4, "1": 4},
        {"0": 3, "2": 4},
        {"0": 3, "2": 3},
    ]


def test_json_says_the_same_as_the_pickle() -> None:
    pickled = flight_recorder.read((DUMPS / "subgroup_3").read_bytes(), "x_3")
    written = flight_recorder.read((DUMPS / "subgroup_3.json").read_bytes(), "x_3.json")
    assert written.status == pickled.status
    assert [one._replace(frames=[]) for one in pickled.collectives] == written.collectives


def test_nccl_s_groups() -> None:
    entry = {
        "pg_id": 1,
        "process_group": ("3", "pp"),
        "p2p_seq_id": 9,
        "is_p2p": True,
        "profiling_name": "nccl:send 0->1",
    }
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}, "3": {"ranks": [1, 2]}}
    dump = flight_recorder.read(pickle.dumps({"version": "2.4", "pg_config": config, "entries": [entry]}), "x", rank=2)
    assert dump.groups == {"0": [0, 1, 2, 3], "3": [1, 2]}
    assert (dump.collectives[0].group, dump.collectives[0].seq) == ("3", 9)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nccl:recv 3<-1", ("recv", 1)),
        ("nccl2:recv 3<-?", ("recv", None)),
        ("nccl:send 12->7", ("send", 7)),
    ],
)
def test_names_of_sends_and_receives(name: str, told: tuple[str, int | None]) -> None:
    entry = {"pg_id": 1, "profiling_name": name, "p2p_seq_id": 2, "is_p2p": True}
    (only,) = flight_recorder.read(pickle.dumps({"entries": [entry]}), "x_1").collectives
    assert (only.op, only.peer) == told


class Evil:
    """Unpickled, it would call what it likes."""

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        return print, ("called",)


def laughs(levels: int = 12) -> bytes:
    """One list of ten references to a list of ten references, and so on."""
    value: list[object] = ["x" * 1000]
    for _ in range(levels):
        value = [value] * 10
    return pickle.dumps(value, 2)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({"entries": [Evil()]}),
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x80\x02]q\x00h\x00a.",
        b"",
        b"{",
        b"[" * 100_000,
        b"{}",
        b'{"entries": 3}',
        pickle.dumps(3),
        pickle.dumps({"version": "1"}),
        laughs(),
        b"\x80\x02N" + b"\x85" * 100_000 + b".",
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b".",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02h\x05.",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_what_is_no_dump_is_refused_and_runs_nothing(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadFormat):
        flight_recorder.read(data, "x_1")
    assert capsys.readouterr().out == ""
