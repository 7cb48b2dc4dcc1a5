"""What can be asked of a demo, and what it makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hangtop.cli.demo import command
from hangtop.demo import ranks
from hangtop.demo.devices.bench import Bench
from hangtop.demo.job.faults import FAULTS as JOB_FAULTS
from hangtop.demo.options import DEVICE_FAULTS, DemoOptions


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ranks", "3"], "3 ranks cannot be shared evenly by 2 nodes"),
        (["--fault", "init", "--fault-rank", "4"], "there is no rank 4 among 4"),
        (["--fault", "gremlins"], "'gremlins' is not one of"),
    ],
)
def test_what_cannot_be_shown_is_refused(words: list[str], said: str) -> None:
    done = CliRunner().invoke(command, words)
    assert (done.exit_code, said in done.output) == (2, True)


def test_the_command_lists_the_faults() -> None:
    listed = CliRunner().invoke(command, ["--help"]).output.partition("Faults:\n")[2]
    assert [line.split()[0] for line in listed.splitlines()] == [*JOB_FAULTS, *DEVICE_FAULTS]


def test_a_fault_of_a_device_is_planted_there_and_none_of_the_job(tmp_path: Path) -> None:
    for fault, given in (("gpu-lost", ""), ("init", "init")):
        words = ranks.command(DemoOptions(fault=fault), tmp_path)
        assert words[words.index("--fault") + 1] == given
    bench = Bench(tmp_path)
    bench.install()
    for planted, _ in DEVICE_FAULTS.values():
        bench.plant(planted.format(local=1))
