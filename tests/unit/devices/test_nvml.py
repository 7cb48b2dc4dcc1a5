"""NVML's child process: started with what was sent for it, kept apart, believed with care."""

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.fleet.payload import lent as lend
from collectors.node import loader
from collectors.node.gpus import nvml, nvml_watch
from collectors.node.gpus.nvml import Nvml
from collectors.node.source import Failed, NotResponding, Shared
from collectors.node.wire import decode_control
from collectors.samples.control import Lent
from collectors.samples.gpus import NvlinkCounters
from collectors.samples.logs import LogEvent
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


def test_links_events_and_shares(start: Start) -> None:
    source = start(
        say(
            ["link", 3, 17, True, 0, 1, None, 5, 6],
            ["share", "00000000:1A:00.0", 4711, 93],
            ["round"],
            ["xid", 100.5, 3, "00000000:5F:00.0", 79],
        )
        + WAIT
    )
    link, event = gather(source, LogEvent)
    assert link == NvlinkCounters(3, 17, True, 0, 1, None, 5, 6)
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
    line = lend("nvml")
    assert line is not None
    lent = decode_control(line)
    assert isinstance(lent, Lent)
    sources = json.loads(zlib.decompress(base64.b64decode(lent.content)))
    assert "def nvmlEventSetWait_v2(" in sources["pynvml"]
    assert sources["nvml_watch"] == Path(nvml_watch.__file__).read_text()
    assert lend("something else") is None
