"""The demo from end to end: real ranks, embedded servers, a planted fault, and nothing left behind however it ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import asyncssh
import psutil
import pytest

from hangtop.demo.demo import Demo
from hangtop.demo.options import DemoOptions

pytestmark = pytest.mark.torch

START = 150.0
"""Seconds that ranks may take to train, on a machine that has much else to do."""


def wait_until(happened: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "what was waited for did not happen"
        time.sleep(0.05)


def processes_of(folder: Path) -> list[str]:
    """Commands of the processes that belong to a demo: its folder is in their words or their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join([*process.cmdline(), *process.environ().values()])
            if str(folder) in words and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


async def on_node(demo: Demo, node: str, line: str, given: str = "") -> str:
    async with asyncssh.connect(node, config=[demo.ssh_config]) as connection:
        done = await connection.run(line, input=given, check=True)
        assert isinstance(done.stdout, str)
        return done.stdout


@pytest.mark.slow  # the README's tests run the demo itself
async def test_a_planted_fault_is_found_over_ssh_and_all_of_it_goes() -> None:
    with Demo(DemoOptions(fault="dataloader", fault_rank=2, after=1, step_time=0.05)) as demo:
        folder = demo.folder
        logs = folder / "logs"
        wait_until(lambda: all((logs / f"rank{rank}.out").stat().st_size for rank in range(4)), START)
        query = "nvidia-smi --query-gpu=utilization.gpu,power.draw --format=csv,noheader,nounits"

        spinning = "100, 252.00\n"
        until = time.monotonic() + 30
        while (others := await on_node(demo, "node0", query)) != 2 * spinning:
            assert time.monotonic() < until, others
        assert await on_node(demo, "node1", query) == f"0, 71.00\n{spinning}"
        assert (
            await on_node(demo, "node1", "nvidia-smi --query-compute-apps=pid --format=csv,noheader | wc -l") == "2\n"
        )
        assert await on_node(demo, "node0", "wc -c", "x" * 300_000) == "300000\n"

        command = ["triage", "--json", "-F", str(demo.ssh_config), *demo.nodes]
        triage = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "from hangtop.cli.main import main; main()", *command, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(triage.communicate(), 60)
        answer = json.loads(output)
        assert (triage.returncode, answer["verdict"]) == (1, "hung")
        first = answer["findings"][0]
        assert (first["kind"], first["ranks"], first["nodes"]) == ("rank_stuck_in_data", [2], ["node1"])
        assert [(node["name"], node["ranks"], node["gpus"]) for node in answer["job"]["nodes"]] == [
            ("node0", [0, 1], 2),
            ("node1", [2, 3], 2),
        ]
        assert processes_of(folder)
    assert not folder.exists()
    wait_until(lambda: processes_of(folder) == [], 40)


HOLD = """
import sys, time
from hangtop.demo.demo import Demo
with Demo() as demo:
    print(demo.folder, demo._host.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("victim", ["watcher", "host"])
def test_a_kill_leaves_nothing_behind(victim: str) -> None:
    watcher = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True)
    assert watcher.stdout is not None
    try:
        name, host = watcher.stdout.readline().split()
        folder = Path(name)
        assert len(processes_of(folder)) >= 5  # the ranks and who cleans up
        os.kill(watcher.pid if victim == "watcher" else int(host), signal.SIGKILL)
        wait_until(lambda: not folder.exists() and processes_of(folder) == [], 40)
    finally:
        watcher.kill()
        watcher.wait()
        watcher.stdout.close()
