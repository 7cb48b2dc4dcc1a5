"""nccl-tests on a node, by a simulated program: found, run over all GPUs, read; absent, failing or hanging."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from collectors.fleet.local import Local
from collectors.probes.allreduce import nccl_tests
from collectors.probes.allreduce.plan import ProbeNode
from collectors.samples.probes import NcclTest

SIZES = (1 << 20, 1 << 29)
PROGRAM = """\
#!/bin/sh
echo "# nccl-tests version 2.17.1"
echo "# $*"
echo "#  Rank  0 Group  0 Pid  $$ on      gpu49 device  0 [0x0a] NVIDIA H200"
echo "#  Rank  1 Group  0 Pid  $$ on      gpu49 device  1 [0x18] NVIDIA H200"
echo "#    size   count   type  redop  root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
echo "  1048576  262144  float    sum    -1    36.50   28.73   28.73      0    35.10   29.87   29.87      0"
{then}
"""


def measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str | None, seconds: float = 20.0
) -> NcclTest | None:
    if then is not None:
        program = tmp_path / "all_reduce_perf"
        program.write_text(PROGRAM.format(then=then))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    node = ProbeNode("node1", "127.0.0.1", gpus=2)
    return asyncio.run(nccl_tests.run(Local("node1"), node, "all_reduce", SIZES, sys.executable, seconds))


def test_its_figures_come_with_the_path_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tmp_path, monkeypatch, "")
    assert found is not None
    assert (found.node, found.program, found.ranks, found.wrong, found.why) == (
        "node1", str(tmp_path / "all_reduce_perf"), 2, 0, "",
    )  # fmt: skip
    assert [(figure.op, figure.size, figure.busbw) for figure in found.figures] == [("all_reduce", 1 << 20, 28.73)]


def test_a_node_without_it_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(tmp_path, monkeypatch, None) is None


@pytest.mark.parametrize("owner", [0, 65534])
@pytest.mark.skipif(os.getuid() != 0, reason="needs another user")
def test_one_that_is_not_in_path_is_run_only_where_it_is_roots(
    owner: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / "opt", tmp_path / "nccl-tests" / "build"]  # the second one is in the user's home
    for place in places:
        place.mkdir(parents=True)
        (place / "all_reduce_perf").write_text(PROGRAM.format(then=""))
        (place / "all_reduce_perf").chmod(0o755)
    os.chown(places[0] / "all_reduce_perf", owner, owner)
    monkeypatch.setattr(nccl_tests, "FOLDERS", (str(places[0]),))
    found = measured(tmp_path, monkeypatch, None)
    assert (found.program if found else "") == ("" if owner else str(places[0] / "all_reduce_perf"))
