"""A real Slurm over the nodes of a test cluster: munged and slurmctld here, a slurmd in each node's namespaces.

    with Cluster(2) as cluster, SlurmCluster(cluster) as slurm:
        job = slurm.submit("--nodes=2", command="srun sleep 600")

Everything lies in the cluster's folder and ends with it; nothing of the machine's own Slurm, if it has one, takes part.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from tests.support.cluster import Cluster
from tests.support.cluster_node import Node

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CONTROLLERS = "freezer memory cpuset cpuacct cpu devices"
# slurmd wants the controllers of cgroup v1 as it knows them; on a kernel that mounts both versions it finds neither.
_CGROUPS = (
    "mount -t tmpfs cg /sys/fs/cgroup && for c in " + _CONTROLLERS + "; do "
    "mkdir -p /sys/fs/cgroup/$c && mount -t cgroup -o $c cg /sys/fs/cgroup/$c; done"
)
_STARTED = 30.0
_CORES = "CPUs=8 Boards=1 SocketsPerBoard=8 CoresPerSocket=1 ThreadsPerCore=1 RealMemory=4000"
"""More than the machine may have: the tests wait, and do not compute."""


def missing_slurm() -> str:
    """Why no Slurm can be started here; empty when one can."""
    wanted = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue")
    tools = [tool for tool in wanted if shutil.which(tool, path=_PATH) is None]
    return f"a real Slurm needs {', '.join(tools)} (slurm-wlm, munge)" if tools else ""


class SlurmCluster:
    """Slurm on all nodes of a cluster; a context manager."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.folder = cluster.root / "slurm"
        self.config = self.folder / "slurm.conf"
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if reason := missing_slurm():
            raise RuntimeError(reason)
        with contextlib.ExitStack() as stack:
            self.folder.mkdir()
            self._start_munge(stack)
            self._write_config()
            self._start(stack, "slurmctld", ["slurmctld", "-D", "-f", str(self.config)])
            for node in self._cluster.nodes:
                node.run(["sh", "-c", _CGROUPS])
                words = ["slurmd", "-D", "-f", str(self.config), "-N", node.name]
                self._start(stack, f"slurmd-{node.name}", words, node)
            self._await_idle()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # --- use ------------------------------------------------------------------------------------------------------

    @property
    def env(self) -> dict[str, str]:
        """What clients must find in their environment."""
        return {"SLURM_CONF": str(self.config)}

    def ask(self, command: Sequence[str], *, check: bool = True) -> str:
        """Standard output of a client."""
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=30, env={**os.environ, **self.env}
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stderr}"
        return done.stdout

    def submit(self, *options: str, command: str, nodes: int) -> str:
        """Submit a batch job; its id, when so many nodes run it."""
        script = f"#!/bin/sh\n{command}\n"
        path = self.folder / f"job-{secrets.token_hex(4)}.sh"
        path.write_text(script)
        job = self.ask(["sbatch", "--parsable", f"--chdir={self.folder}", *options, str(path)]).strip()
        running = ["squeue", "--noheader", "--jobs", job, "--states", "RUNNING", "--format", "%D"]
        self._await(lambda: self.ask(running).split() == [str(nodes)], f"job on {nodes} nodes")
        return job

    def cancel(self, job: str) -> None:
        """End a job and wait until its nodes are free."""
        self.ask(["scancel", job], check=False)
        self._await_idle()

    # --- parts ----------------------------------------------------------------------------------------------------

    def _start_munge(self, stack: contextlib.ExitStack) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        self.socket = self.folder / "munge.sock"
        words = [
            "munged", "-F", "-f", "--key-file", str(key), "--socket", str(self.socket),
            "--pid-file", str(self.folder / "munged.pid"), "--log-file", str(self.folder / "munged.log"),
            "--seed-file", str(self.folder / "munged.seed"),
        ]  # fmt: skip
        self._start(stack, "munged-out", words)
        self._await(self.socket.exists, "munged's socket")

    def _write_config(self) -> None:
        (self.folder / "state").mkdir()
        for node in self._cluster.nodes:
            (self.folder / f"spool-{node.name}").mkdir()
        names = ",".join(self._cluster.names)
        lines = [
            "ClusterName=hangtop", f"SlurmctldHost={socket.gethostname()}({self._cluster.address(254)})",
            "AuthType=auth/munge", f"AuthInfo=socket={self.socket}", "SlurmUser=root", "SlurmdUser=root",
            f"StateSaveLocation={self.folder}/state", f"SlurmdSpoolDir={self.folder}/spool-%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid", f"SlurmdPidFile={self.folder}/slurmd-%n.pid",
            "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core", "MpiDefault=none", "ReturnToService=2", "SlurmdTimeout=60",
            f"SlurmctldPort={21000 + self._cluster.number}", f"SlurmdPort={22000 + self._cluster.number}",
            "SlurmdParameters=config_overrides",
            *(f"NodeName={node.name} NodeAddr={node.address} {_CORES}" for node in self._cluster.nodes),
            f"PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES",
        ]  # fmt: skip
        self.config.write_text("\n".join(lines) + "\n")
        (self.folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"
        )

    def _start(
        self, stack: contextlib.ExitStack, name: str, words: Sequence[str], node: Node | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a daemon in the foreground; it ends with the test run."""
        program = shutil.which(words[0], path=_PATH)
        assert program is not None
        command = [program, *words[1:]]
        own = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        with (self.folder / f"{name}.log").open("wb") as log:
            daemon = subprocess.Popen(
                node.enter(command) if node is not None else own,
                env={**(node.environment() if node is not None else os.environ), **self.env, "PATH": _PATH},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip

        def end() -> None:
            daemon.kill()
            daemon.wait()

        stack.callback(end)
        return daemon

    def _await_idle(self) -> None:
        def idle() -> bool:
            states = self.ask(["sinfo", "--noheader", "--Node", "--format", "%T"], check=False).split()
            return len(states) == self._cluster.size and set(states) == {"idle"}

        self._await(idle, "idle nodes")

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _STARTED
        while not condition():
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in self.folder.glob("*.log")
                )
                raise TimeoutError(f"no {what} after {_STARTED:.0f} s\n{logs}")
            time.sleep(0.05)
