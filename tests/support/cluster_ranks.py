"""The ranks of a job on a test cluster."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster_node import Node


@dataclass(slots=True)
class Rank:
    """One rank of the job."""

    rank: int
    node: Node
    process: subprocess.Popen[bytes]
    """Ends when the rank ends, with its status (128 + signal when a signal ended it)."""
    stdout: Path
    stderr: Path

    @property
    def pid(self) -> int:
        """Its process id as the node numbers it; waits until it has been started."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for process in self.node.processes():
                environ = process.environ()
                if environ.get("HX_RANK") == str(self.rank) and environ.get("HX_JOB") == str(self.stdout.parent):
                    return process.pid
            time.sleep(0.01)
        raise ProcessLookupError(f"rank {self.rank} does not run on {self.node.name}")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.node.kill(self.pid, number)


@dataclass(slots=True)
class Ranks:
    """All ranks of one job."""

    folder: Path
    ranks: list[Rank]

    def __getitem__(self, rank: int) -> Rank:
        return self.ranks[rank]

    def __len__(self) -> int:
        return len(self.ranks)

    def wait(self, timeout: float = 150.0) -> list[int]:
        """Wait for all to end; their statuses by rank."""
        deadline = time.monotonic() + timeout
        return [rank.process.wait(max(0.0, deadline - time.monotonic())) for rank in self.ranks]

    def wait_for(self, text: str, *, ranks: Sequence[int] | None = None, timeout: float = 150.0) -> None:
        """Wait until each of ``ranks`` (all) has printed ``text`` on its standard output or error."""
        deadline = time.monotonic() + timeout
        waiting = {rank.rank for rank in self.ranks} if ranks is None else set(ranks)
        while waiting:
            for number in sorted(waiting):
                rank = self.ranks[number]
                if text in rank.stdout.read_text(errors="replace") + rank.stderr.read_text(errors="replace"):
                    waiting.discard(number)
                elif rank.process.poll() is not None or time.monotonic() > deadline:
                    tail = rank.stderr.read_text(errors="replace")[-2000:]
                    raise TimeoutError(f"rank {number} (status {rank.process.poll()}) never printed {text!r}: {tail}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End all that still run."""
        for rank in self.ranks:
            rank.process.kill()  # nsenter's child dies with it
        for rank in self.ranks:
            with suppress(subprocess.TimeoutExpired):
                rank.process.wait(5)


def launch(
    nodes: Sequence[Node],
    script: str,
    folder: Path,
    *,
    ranks_per_node: int,
    arguments: Sequence[str],
    env: Mapping[str, str],
    per_rank: Mapping[int, Mapping[str, str]],
    python: str,
    port: int,
) -> Ranks:
    """Start ``script`` (Python source) once per rank with the environment that ``env://`` reads.

    Files go to ``folder``: ``train.py``, ``rank-N.out`` and ``rank-N.err``. The first node's address is MASTER_ADDR.
    ``per_rank`` adds variables to single ranks; a value there or in ``env`` overrides what the launcher sets.
    """
    folder.mkdir(parents=True)
    program = folder / "train.py"
    program.write_text(script)
    common = {
        "WORLD_SIZE": str(len(nodes) * ranks_per_node), "LOCAL_WORLD_SIZE": str(ranks_per_node),
        "MASTER_ADDR": nodes[0].address, "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "HX_JOB": str(folder),
    }  # fmt: skip
    ranks = []
    for index, node in enumerate(nodes):
        for local in range(ranks_per_node):
            number = index * ranks_per_node + local
            own = {"RANK": str(number), "LOCAL_RANK": str(local), "NODE_RANK": str(index), "HX_RANK": str(number)}
            out, err = folder / f"rank-{number}.out", folder / f"rank-{number}.err"
            with out.open("wb") as stdout, err.open("wb") as stderr:
                process = node.spawn(
                    [python, str(program), *arguments], env={**common, **own, **env, **per_rank.get(number, {})},
                    cwd=folder, stdout=stdout, stderr=stderr,
                )  # fmt: skip
            ranks.append(Rank(number, node, process, out, err))
    return Ranks(folder, ranks)
