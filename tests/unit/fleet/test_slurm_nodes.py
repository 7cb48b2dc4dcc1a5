"""What Slurm says of nodes while a job runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.targets.slurm import SlurmComponent
from collectors.fleet.targets.slurm_nodes import Scheduled, ask, put_together

PARTS = (SlurmComponent("3", "3+0", "RUNNING", "gpu[1-2]"), SlurmComponent("4", "3+1", "RUNNING", "big7"))


def test_parts_steps_time_and_reasons_by_node() -> None:
    found = put_together(
        PARTS,
        ["3|1-02:03:04", "4|UNLIMITED"],
        ["3.0|gpu[1-2]|train", "3.batch|gpu1|batch", "9.0|other|x", "3.1|gpu[|broken", "3.extern||y"],
        ["gpu1|mixed|none", "gpu2|drained|bad gpu | xid 79", "other|down|x", "noise"],
    )
    assert found == {
        "gpu1": Scheduled("3+0", "1-02:03:04", ("3.0 train", "3.batch batch"), "mixed", ""),
        "gpu2": Scheduled("3+0", "1-02:03:04", ("3.0 train",), "drained", "bad gpu | xid 79"),
        "big7": Scheduled("3+1", "UNLIMITED"),
    }


@given(st.lists(st.text(max_size=30)), st.lists(st.text(max_size=30)), st.lists(st.text(max_size=30)))
def test_any_lines_are_read(left: list[str], steps: list[str], states: list[str]) -> None:
    assert set(put_together(PARTS, left, steps, states)) == {"gpu1", "gpu2", "big7"}


async def test_commands_that_fail_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    script = tmp_path / "sinfo"
    await asyncio.to_thread(script.write_text, "#!/bin/sh\necho 'gpu1|down*|Not responding'\n")
    script.chmod(0o755)
    found = await ask(PARTS)
    assert found["gpu1"] == Scheduled("3+0", "", (), "down*", "Not responding")
    assert found["big7"] == Scheduled("3+1")
