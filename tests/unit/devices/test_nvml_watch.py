"""What is asked of NVML, against bindings of a test's own."""

# ruff: noqa: N802, N815 - named as the bindings name them

from types import SimpleNamespace
from typing import Any

import pytest

from collectors.node.gpus import nvml_watch


class NvmlError(Exception):
    """As the bindings raise it."""

    def __init__(self, value: int, text: str = "Not Supported") -> None:
        super().__init__(text)
        self.value = value


class Bindings:
    """The part of pynvml that is used, with two GPUs that have two links each."""

    NVMLError = NvmlError
    NVML_ERROR_TIMEOUT = 10
    NVML_NVLINK_MAX_LINKS = 36
    NVML_NVLINK_ERROR_DL_REPLAY, NVML_NVLINK_ERROR_DL_RECOVERY, NVML_NVLINK_ERROR_DL_CRC_FLIT = 0, 1, 2
    NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX = 138, 139
    nvmlEventTypeXidCriticalError = 8

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.registered: list[int] = []
        self.samples: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        """What is asked of a GPU by its handle, which is its index; the rest needs no answer."""
        answers = {
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetNvLinkErrorCounter": lambda _handle, _link, counter: 4 if counter == 2 else counter,
            "nvmlDeviceGetSupportedEventTypes": lambda handle: 8 if handle == 0 else 0,
            "nvmlDeviceRegisterEvents": lambda handle, _types, _events: self.registered.append(handle),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
        }
        answer = answers.get(name)
        return answer if callable(answer) else lambda *_: answer

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"00000000:{0x1A + handle:02X}:00.0".encode())

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if link >= 2:
            raise NvmlError(2)
        return int(link == 0)

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[tuple[int, int]]) -> list[Any]:
        return [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(ullVal=field)) for field, _ in fields]

    def nvmlEventSetWait_v2(self, events: object, milliseconds: int) -> Any:
        if not self.events:
            raise NvmlError(self.NVML_ERROR_TIMEOUT)
        return self.events.pop()

    def nvmlDeviceGetProcessUtilization(self, handle: int, since: int) -> list[Any]:
        fresh = [sample for sample in self.samples if sample.timeStamp > since and handle == 0]
        if not fresh:
            raise NvmlError(6, "Not Found")
        return fresh


def rounds(bindings: Bindings, count: int = 1) -> list[list[Any]]:
    lines: list[list[Any]] = []
    nvml_watch.main(bindings, lines.append, count)
    return lines


def of(lines: list[list[Any]], kind: str) -> list[list[Any]]:
    return [line[1:] for line in lines if line[0] == kind]


@pytest.fixture(autouse=True)
def _quick_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_watch, "PERIOD", 0.01)


def test_links_with_errors_and_traffic_in_bytes() -> None:
    lines = rounds(Bindings())
    assert of(lines, "link")[:2] == [
        [0, 0, True, 0, 1, 4, 139 << 10, 138 << 10],
        [0, 1, False, 0, 1, 4, 139 << 10, 138 << 10],
    ]
    assert len(of(lines, "link")) == 4
    assert len(of(lines, "round")) == 1


def test_an_xid_as_it_happens() -> None:
    bindings = Bindings()
    bindings.events = [SimpleNamespace(device=0, eventType=8, eventData=79)]
    ((_, gpu, bus_id, code),) = of(rounds(bindings), "xid")
    assert (gpu, bus_id, code) == (0, "00000000:1a:00.0", 79)
    assert bindings.registered == [0]


def test_the_latest_share_of_each_process() -> None:
    bindings = Bindings()
    bindings.samples = [
        SimpleNamespace(pid=5, timeStamp=10, smUtil=20),
        SimpleNamespace(pid=5, timeStamp=30, smUtil=80),
        SimpleNamespace(pid=6, timeStamp=20, smUtil=10),
    ]
    lines = rounds(bindings, 2)
    assert of(lines, "share") == [["00000000:1a:00.0", 5, 80], ["00000000:1a:00.0", 6, 10]]
