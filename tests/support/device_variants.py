"""Nodes on which less is to be seen: stacks refused, ranks in a container."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.cluster import Cluster
from tests.support.cluster_node import Node, NodeProcess, sshd_binary
from tests.support.faulty import FaultyJob
from tests.support.simulated_nccl.library import compiler

# --- stacks refused ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def ptrace_refused(cluster: Cluster) -> Iterator[None]:
    """Nobody who logs in may look into a process, root neither."""
    source, program = Path(__file__).with_name("refuse_ptrace.c"), cluster.root / "refuse_ptrace"
    subprocess.run([compiler(), "-O1", "-o", str(program), str(source)], check=True)
    binary = sshd_binary()
    assert binary is not None
    for node in cluster.nodes:
        node.stop_sshd()
        node.run([str(program), "-m", binary, "-f", f"{node.root}/sshd_config", "-E", f"{node.root}/sshd.log"])
    try:
        yield
    finally:
        for node in cluster.nodes:
            node.stop_sshd()
            node.start_sshd()


# --- a container -------------------------------------------------------------------------------------------------


def contained(cluster: Cluster) -> Sequence[str]:
    """Words before a command that run it in a container: own process ids, and a workspace that is nowhere else."""
    furnish = f'mount -t tmpfs workspace {cluster.shared} && exec "$@"'
    return ("unshare", "-p", "-m", "--fork", "--kill-child", "--mount-proc", "sh", "-c", furnish, "sh")


class ContainedJob(FaultyJob):
    """A job whose ranks run in containers: its files are below their roots alone."""

    def said(self, rank: int) -> str:
        """All that a rank has written."""
        found = self.processes(rank)
        root = Path(f"/proc/{found[0][1].host_pid}/root") if found else Path("/nowhere")
        files = (self.log(rank), self.log(rank).with_suffix(".out"))
        inside = [root / file.relative_to("/") for file in files]
        return "".join(file.read_text(errors="replace") for file in inside if file.exists())

    def processes(self, rank: int) -> list[tuple[Node, NodeProcess]]:
        """The rank's processes, by the numbers that their node gives them."""
        node = self.nodes[rank // self.ranks_per_node]
        found = [_of_container(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [
            (node, process)
            for process in found
            if process is not None
            and (env := process.environ()).get("HX_CASE") == self.case
            and env.get("RANK") == str(rank)
        ]

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Send a signal to a rank."""
        for _, process in self.processes(rank)[:1]:
            os.kill(process.host_pid, number)

    def end(self) -> None:
        """End all of its processes."""
        for rank in range(len(self.nodes) * self.ranks_per_node):
            for _, process in self.processes(rank):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.host_pid, signal.SIGKILL)


def _of_container(number: int) -> NodeProcess | None:
    """A process two namespaces further in than this one; None for any other."""
    try:
        status = Path(f"/proc/{number}/status").read_text()
    except OSError:
        return None  # it ended meanwhile
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return NodeProcess(int(numbers[1]), number, "", "") if len(numbers) == 3 else None
