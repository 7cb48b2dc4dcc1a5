"""Every command of the README but the demo, run against two real nodes with a job."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.faulty import Nurseries
from tests.support.readme import commands
from tests.support.tmux import Tmux

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

HANGTOP = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]
SCREENS = {"hangtop node[1-8]"}
ON_CLUSTER = [line for line in commands() if line.startswith("hangtop ")]


@pytest.fixture(scope="module")
def cluster(nursery: Nurseries) -> Iterator[Cluster]:
    for job in nursery.jobs:
        job.end()
    job = nursery.launch("lm.py", "trains")
    job.wait_for("moves")
    yield nursery.cluster
    job.end()


@pytest.fixture
def environment(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """The user's environment names the ssh_config, so that the commands stay as the README has them."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "rank0.log").write_text("step 1\nstep 2\n", encoding="utf-8")
    own = {"HANGTOP_SSH_CONFIG": str(cluster.ssh_config), "HANGTOP_BATCH": "1", "HANGTOP_PYTHON": sys.executable}
    return {**os.environ, **own, "HANGTOP_YES": "1"}


def test_there_are_commands() -> None:
    assert len(ON_CLUSTER) >= 7


@pytest.mark.parametrize("line", [line for line in ON_CLUSTER if line not in SCREENS])
def test_a_command_of_the_readme(line: str, environment: dict[str, str], tmp_path: Path) -> None:
    words = shlex.split(re.sub(r"node\[1-8\]", "node[1-2]", line))[1:]
    done = subprocess.run(
        [*HANGTOP, *words], capture_output=True, text=True, timeout=180, check=False, env=environment, cwd=tmp_path
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout or (tmp_path / "job.rec").exists()
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(Tmux.missing(), reason="tmux is not installed")
def test_the_live_screen(environment: dict[str, str]) -> None:
    with Tmux([*HANGTOP, "node[1-2]"], env=environment) as terminal:
        terminal.wait_for("4 ranks on 2 nodes")
        terminal.press("2")
        terminal.wait_for("rank")
        terminal.press("q")
        terminal.wait_until_ended()
