"""Nodes on which less is to be seen: stacks refused, ranks in a container, the login of a user who is not root."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.cluster import Cluster
from tests.support.cluster_node import Node, NodeProcess, sshd_binary
from tests.support.faulty import FaultyJob
from tests.support.simulated_nccl.library import compiler

OTHER = "visitor"
"""Name of a user who is not root."""
USER = 4711
"""That user's number."""


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


# --- a login that is not root's -----------------------------------------------------------------------------------


@contextlib.contextmanager
def own_user(cluster: Cluster) -> Iterator[Path]:
    """An ssh_config that logs in as :data:`USER`, on nodes where nobody sees processes of others (hidepid).

    Ranks of that user find a Python that he may run: where it lies is no longer closed to others.
    """
    with _account(cluster) as config:
        for node in cluster.nodes:
            node.run(["sh", "-c", _OPEN, "sh", *_below_root()])
            node.run(["mount", "-o", "remount,hidepid=2", "/proc"])
            os.chown(node.root / "gpus", USER, USER)
        os.chown(cluster.shared, USER, USER)
        try:
            yield config
        finally:
            for node in cluster.nodes:
                os.chown(node.root / "gpus", 0, 0)
                node.run(["mount", "-o", "remount,hidepid=0", "/proc"])


_OPEN = """
set -e
[ $# -gt 0 ] || exit 0
for folder; do
  mkdir -p "/run/opened/$folder"
  mount --bind "$folder" "/run/opened/$folder"
done
mount -t tmpfs -o mode=755 opened /root
for folder; do
  mkdir -p "$folder"
  mount --bind "/run/opened/$folder" "$folder"
done
"""
"""Shell: these folders below root's home lie in another one, that every user may enter; for as long as the node is."""


def _below_root() -> list[str]:
    """Folders of this Python that lie in root's home."""
    return sorted({prefix for prefix in (sys.prefix, sys.base_prefix) if Path(prefix).is_relative_to("/root")})


@contextlib.contextmanager
def _account(cluster: Cluster) -> Iterator[Path]:
    """An ssh_config that logs in as a user whom all nodes know, and who may enter the cluster's folder."""
    cluster.root.chmod(0o755)
    accounts = cluster.root / "passwd"
    accounts.write_text(f"{Path('/etc/passwd').read_text()}{OTHER}:*:{USER}:{USER}::/tmp:/bin/sh\n")
    for node in cluster.nodes:
        node.run(["mount", "--bind", str(accounts), "/etc/passwd"])
    config = cluster.root / "ssh_config_visitor"
    config.write_text(cluster.ssh_config.read_text().replace("User root", f"User {OTHER}"))
    try:
        yield config
    finally:
        for node in cluster.nodes:
            node.run(["umount", "/etc/passwd"])
        cluster.root.chmod(0o700)
