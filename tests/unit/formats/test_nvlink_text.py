"""Tables of NVLinks: which links are up, and what is made of those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.formats import nvlink_text
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session

SMI = (
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: 26.562 GB/s\n"
    "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-2)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n"
)
DCGM = (
    "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n    gpuId 0:\n        U U _\n"
    "    gpuId 1:\n        U D X\nNvSwitches:\n    No NvSwitches found.\n\nKey: Up=U, Down=D, Disabled=X\n"
)


def _findings(folder: Path, text: str) -> list[Finding]:
    (folder / "node7.txt").write_text(text)
    return list(diagnose(files_session([folder]).job()).findings)


@pytest.mark.parametrize("text", [SMI, DCGM])
def test_a_link_that_is_down(tmp_path: Path, text: str) -> None:
    (finding,) = _findings(tmp_path, text)
    assert (finding.kind, finding.severity) == ("nvlink_errors", "warning")
    assert finding.gpus == ("node7:1",)
    assert "link 1 is down" in finding.summary


@pytest.mark.parametrize("text", [SMI.replace("<inactive>", "26.562 GB/s"), DCGM.replace("U D X", "U U X")])
def test_links_that_are_up(tmp_path: Path, text: str) -> None:
    assert _findings(tmp_path, text) == []


def test_a_gpu_of_which_all_links_are_down_while_others_are_joined(tmp_path: Path) -> None:
    (finding,) = _findings(tmp_path, DCGM.replace("U D X", "D D X"))
    assert finding.gpus == ("node7:1",)
    assert "link 0 is down" in finding.summary


def test_where_none_is_up_nothing_tells_broken_links_from_none(tmp_path: Path) -> None:
    (finding,) = _findings(tmp_path, DCGM.replace("U U _", "D D _").replace("U D X", "D D X"))
    assert (finding.kind, finding.severity) == ("nvlink_errors", "info")
    assert "all 4 NVLinks of 2 GPUs are down" in finding.summary


def test_links_of_switches_are_no_gpu_s() -> None:
    links = nvlink_text.parse(DCGM.replace("No NvSwitches found.", "physicalId 1:\n        D D D"))
    assert {(link.gpu, link.link, link.active) for link in links} == {
        (0, 0, True), (0, 1, True), (1, 0, True), (1, 1, False),
    }  # fmt: skip


def test_a_log_that_quotes_a_table_further_down_is_a_log() -> None:
    assert not nvlink_text.looks_like("step 1\n" * 40 + SMI)
