"""Every command of the README but the demo, run against two real nodes with a job."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.faulty import Nurseries
from tests.support.readme import commands
from tests.support.tmux import Tmux

pytestmark = [pytest.mark.nodes, pytest.mark.torch]

HANGTOP = [sys.executable, "-c", "from hangtop.cli.main import main; main()"]
TEXTS = [line for line in commands() if line.startswith("hangtop ") and line != "hangtop node[1-8]"]
"""The commands that answer in text."""


@pytest.fixture(scope="module")
def cluster(nursery: Nurseries) -> Iterator[Cluster]:
    for job in nursery.jobs:
        job.end()
    job = nursery.launch("lm.py", "trains")
    job.wait_for("moves")
    yield nursery.cluster
    job.end()


@pytest.fixture(scope="module")
def environment(cluster: Cluster) -> dict[str, str]:
    """The user's environment names the ssh_config, so that the commands stay as the README has them."""
    own = {"HANGTOP_SSH_CONFIG": str(cluster.ssh_config), "HANGTOP_BATCH": "1", "HANGTOP_PYTHON": sys.executable}
    return {**os.environ, **own}


def run(line: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = shlex.split(re.sub(r"node\[1-8\]", "node[1-2]", line))[1:]
    words += ["--yes"] * (words[0] == "probe")
    (folder / "logs").mkdir()
    (folder / "logs" / "rank0.log").write_text("step 1\nstep 2\n", encoding="utf-8")
    return subprocess.run(
        [*HANGTOP, *words], capture_output=True, text=True, timeout=180, check=False, env=environment, cwd=folder
    )


Answers = dict[str, tuple[Path, Future[subprocess.CompletedProcess[str]]]]


@pytest.fixture(scope="module")
def answers(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    """What each command says in a folder of its own; three run at a time, for all of them mostly wait."""
    with ThreadPoolExecutor(3) as pool:
        folders = [(line, tmp_path_factory.mktemp("readme")) for line in TEXTS]
        yield {line: (folder, pool.submit(run, line, folder, environment)) for line, folder in folders}


def test_there_are_commands() -> None:
    assert len(TEXTS) >= 7


@pytest.mark.skipif(Tmux.missing(), reason="tmux is not installed")
@pytest.mark.usefixtures("answers")
def test_the_live_screen(environment: dict[str, str]) -> None:
    """Beside the commands, which mostly wait."""
    with Tmux([*HANGTOP, "node[1-2]"], env=environment) as terminal:
        assert terminal.wait_for("4 ranks on 2 nodes")
        terminal.press("2")
        assert terminal.wait_for("rank")
        terminal.press("q")
        terminal.wait_until_ended()


@pytest.mark.parametrize("line", TEXTS)
def test_a_command_of_the_readme(line: str, answers: Answers) -> None:
    folder, answer = answers[line]
    done = answer.result()
    assert done.returncode in (0, 1, 5), done.stderr
    assert done.stdout or (folder / "job.rec").exists()
    assert "Traceback" not in done.stderr
