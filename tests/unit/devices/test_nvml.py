"""NVML's child process: started with what was sent for it, kept apart, believed with care; and what it asks of NVML."""

# ruff: noqa: N802, N815 - named as the bindings name them

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from collectors.fleet.payload import lent
from collectors.node import loader
from collectors.node.gpus import nvml, nvml_watch
from collectors.node.gpus.nvml import Nvml
from collectors.node.source import Failed, NotResponding, Shared
from collectors.node.wire import decode_control
from collectors.samples.gpus import NvlinkCounters
from collectors.samples.logs import LogEvent
from collectors.samples.stream import Fault, Lent
from tests.support.looks import gather, until_raised

Start = Callable[[str], Nvml]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Make the source with a child that runs a program in place of the watch."""

    def make(program: str) -> Nvml:
        device = tmp_path / "nvidiactl"
        device.touch()
        monkeypatch.setattr(nvml, "DEVICE", str(device))
        sources = {"pynvml": "", "nvml_watch": f"import json, time, os\ndef main(nvml):\n{program}"}
        monkeypatch.setitem(loader._blobs, "nvml", base64.b64encode(zlib.compress(json.dumps(sources).encode())))
        return Nvml(Shared())

    return make


WAIT = "    time.sleep(60)\n"


def say(*lines: list[object]) -> str:
    return "".join(f"    print({json.dumps(line)!r}, flush=True)\n" for line in lines)


def test_links_events_and_shares_and_what_is_no_line(start: Start) -> None:
    source = start(
        say(["link", 3, 17, True, 0, 1, None, 5, 6], ["share", "00000000:1A:00.0", 4711, 93], ["round"])
        + "    print('Segfault?', flush=True)\n"
        + say(["xid", 100.5, 3, "00000000:5F:00.0", 79])
        + WAIT
    )
    link, odd, event = gather(source, LogEvent)
    assert link == NvlinkCounters(3, 17, True, 0, 1, None, 5, 6)
    assert odd == Fault("nvml", "a line of NVML's process was not understood: Segfault?", 1)
    assert isinstance(event, LogEvent)
    assert (event.kind, event.at, event.source) == ("kernel.xid", 100.5, "nvml")
    assert (event.data["code"], event.data["bus_id"]) == (79, "0000:5f:00")
    assert source.shared.sm_shares == {("0000:1a:00", 4711): 93}


def test_a_wedged_driver_is_silence(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "SILENCE", 0.2)
    assert str(until_raised(start(say(["round"]) + WAIT), NotResponding)) == "no answer from NVML"


def test_a_child_that_falls_over_says_why(start: Start) -> None:
    assert "no libnvidia-ml here" in str(until_raised(start("    raise OSError('no libnvidia-ml here')\n"), Failed))


def test_what_is_lent_holds_the_real_bindings_and_the_watch() -> None:
    line = lent("nvml")
    assert line is not None
    sent = decode_control(line)
    assert isinstance(sent, Lent)
    sources = json.loads(zlib.decompress(base64.b64decode(sent.content)))
    assert "def nvmlEventSetWait_v2(" in sources["pynvml"]
    assert sources["nvml_watch"] == Path(nvml_watch.__file__).read_text()
    assert lent("something else") is None


# --- what it asks of NVML --------------------------------------------------------------------------------------------


class NvmlError(Exception):
    """As the bindings raise it."""

    value = 2


class Bindings:
    """The part of pynvml that is used, with two GPUs that have two links each, by their indices as handles."""

    NVMLError = NvmlError
    NVML_ERROR_TIMEOUT = 10
    NVML_NVLINK_MAX_LINKS = 36
    NVML_NVLINK_ERROR_DL_REPLAY, NVML_NVLINK_ERROR_DL_RECOVERY, NVML_NVLINK_ERROR_DL_CRC_FLIT = 0, 1, 2
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139
    nvmlEventTypeXidCriticalError = 8

    def __init__(self) -> None:
        self.events = [SimpleNamespace(device=0, eventType=8, eventData=79)]
        self.registered: list[int] = []
        used = ((5, 10, 20), (5, 30, 80), (6, 20, 10))
        self.samples = [SimpleNamespace(pid=pid, timeStamp=at, smUtil=share) for pid, at, share in used]

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Callable[..., Any]] = {
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetNvLinkErrorCounter": lambda _handle, _link, counter: 4 if counter == 2 else counter,
            "nvmlDeviceGetSupportedEventTypes": lambda handle: 8 if handle == 0 else 0,
            "nvmlDeviceRegisterEvents": lambda handle, _types, _events: self.registered.append(handle),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=f"00000000:{0x1A + handle:02X}:00.0".encode()),
            "nvmlDeviceGetFieldValues": lambda _handle, fields: [
                SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=field)) for field, _ in fields
            ],
        }
        return answers.get(name, lambda *_: None)

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if link >= 2:
            raise NvmlError
        return int(link == 0)

    def nvmlEventSetWait_v2(self, events: object, milliseconds: int) -> Any:
        if not self.events:
            raise NvmlError
        return self.events.pop()

    def nvmlDeviceGetProcessUtilization(self, handle: int, since: int) -> list[Any]:
        if fresh := [sample for sample in self.samples if sample.timeStamp > since and handle == 0]:
            return fresh
        raise NvmlError


def test_links_in_bytes_the_latest_shares_and_an_xid_as_it_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_watch, "PERIOD", 0.01)
    lines: list[list[Any]] = []
    bindings = Bindings()
    nvml_watch.main(bindings, lines.append, 2)

    def told(kind: str) -> list[list[Any]]:
        return [line[1:] for line in lines if line[0] == kind]

    one_round = [[gpu, at, at == 0, 0, 1, 4, 139 << 10, 138 << 10] for gpu in (0, 1) for at in (0, 1)]
    assert told("link") == one_round * 2
    assert told("round") == [[], []]
    assert told("share") == [["00000000:1a:00.0", 5, 80], ["00000000:1a:00.0", 6, 10]]
    ((_, gpu, bus_id, code),) = told("xid")
    assert (gpu, bus_id, code, bindings.registered) == (0, "00000000:1a:00.0", 79, [0])
