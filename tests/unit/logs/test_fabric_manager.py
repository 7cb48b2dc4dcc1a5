"""Fabric Manager's own log is found where it is configured."""

from __future__ import annotations

from pathlib import Path

from collectors.node.logs.following import log_paths as fabric_manager
from collectors.node.logs.following.log_paths import LogPlaces

SWITCH = "[Jul 23 2024 07:53:55] [ERROR] [tid 841] detected NVSwitch fatal error 20034 on fid 0\n"
GPU = "[Oct 13 2025 18:14:38] [ERROR] [tid 202] Fabric Manager detected GPU NVL Fatal error on :\n"


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
