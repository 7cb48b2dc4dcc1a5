"""Fabric Manager's own log: NVLink errors of switches, GPUs and trunks, with its own way to write a time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from collectors.node.logs import times
from collectors.node.logs.following import log_paths as fabric_manager
from collectors.node.logs.following.log_paths import LogPlaces
from collectors.samples.logs import LogEvent
from tests.support.logs import kinds, only, parse

SWITCH = (
    "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id "
    "00000000:86:00.0 physical id 3 port 33\n"
)
GPU = (
    "[Oct 13 2025 18:14:38] [ERROR] [tid 202] Fabric Manager detected GPU NVL Fatal error on :\n"
    "moduleId : 3\nnodeId : 7\ngpuGuid : 0xED0A8727AFC3C6F9\nportNum : 4\nerrorCode : 0x06\n"
)
TRUNK = (
    "[Jul 19 2025 18:34:57] [WARNING] [tid 134] Trunk port failure detected for switch GUID 0xb0cf0e0300e42e00 and "
    "switch chassis sn 1825124190179, slot 7 port number 61 port GUID 0xb0cf0e0300e42e00 cage 7.\n"
)


def event(text: str) -> LogEvent:
    return only(parse(text), "kernel.fabric_manager")


def test_errors_of_switches_gpus_and_trunks() -> None:
    assert event(SWITCH).data == {"fatal": True, "code": 20034}
    assert event(GPU).data == {"fatal": True, "what": "gpu"}
    assert event(GPU.replace("NVL Fatal", "NVL Non Fatal")).data == {"fatal": False, "what": "gpu"}
    assert event(TRUNK).data == {"fatal": False, "what": "trunk", "switch": "0xb0cf0e0300e42e00", "port": 61}


def test_its_time_has_the_year_in_the_middle() -> None:
    at = event(SWITCH).at
    assert at is not None
    assert time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) == "2024-07-23 07:53:55"
    found = times.find("Jul 23 07:53:55 host kernel: x", 1.7e9)
    assert found is not None, "a time without a year is read as before"


@pytest.mark.parametrize(
    "text",
    [
        "[Jul 24 2024 03:14:18] [INFO] [tid 855] Sending inband response message:  Message header details\n",
        "[Jul 24 2024 03:14:18] [INFO] [tid 855] all GPU NVL links trained, no Trunk port failures\n",
    ],
)
def test_what_is_no_error(text: str) -> None:
    assert "kernel.fabric_manager" not in kinds(parse(text))


def test_its_file_is_followed_where_it_is_configured(tmp_path: Path) -> None:
    assert list(LogPlaces(root=str(tmp_path)).of_system(0.0)) == []
    usual = tmp_path / "var/log/fabricmanager.log"
    usual.parent.mkdir(parents=True)
    usual.write_text(SWITCH)
    assert [wanted.path for wanted in LogPlaces(root=str(tmp_path)).of_system(0.0)] == [str(usual)]
    configuration = tmp_path / "usr/share/nvidia/nvswitch/fabricmanager.cfg"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("# LOG_FILE_NAME=/no\nLOG_LEVEL=4\nLOG_FILE_NAME=/var/log/fm/own.log\n")
    assert list(LogPlaces(root=str(tmp_path)).of_system(0.0)) == []
    (tmp_path / "var/log/fm").mkdir()
    (tmp_path / "var/log/fm/own.log").write_text(GPU)
    places = LogPlaces(root=str(tmp_path))
    assert [Path(wanted.path).name for wanted in places.of_system(0.0)] == ["own.log"]
    (wanted,) = places.of_system(1.0)
    assert (wanted.rank, wanted.stream, wanted.why) == (None, "extra", "")
    assert fabric_manager.places(str(tmp_path)) == [wanted.path]
