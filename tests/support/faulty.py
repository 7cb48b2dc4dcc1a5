"""Jobs with faults on a test cluster, and hangtop's answer about them through its command line."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tests.support.cluster import Cluster
from tests.support.cluster_node import Node, NodeProcess

JOBS = Path(__file__).with_name("faulty_jobs")
_MAIN = "from hangtop.cli.main import main; main()"
_ROOM = 8192


@dataclass
class FaultyJob:
    """One job of four ranks, two a node, known to hangtop by ``HX_CASE``."""

    case: str
    folder: Path
    nodes: Sequence[Node]
    ranks_per_node: int = 2

    def log(self, rank: int) -> Path:
        """Standard error of a rank; standard output is beside it."""
        return self.folder / f"rank{rank}.err"

    def said(self, rank: int) -> str:
        """All that a rank has written."""
        files = (self.log(rank), self.log(rank).with_suffix(".out"))
        return "".join(file.read_text(errors="replace") for file in files if file.exists())

    def wait_for(self, text: str, *ranks: int, timeout: float = 150.0) -> None:
        """Wait until these ranks (all) have written ``text``."""
        deadline = time.monotonic() + timeout
        waiting = set(ranks) or set(range(len(self.nodes) * self.ranks_per_node))
        while waiting:
            waiting -= {rank for rank in waiting if text in self.said(rank)}
            if waiting and time.monotonic() > deadline:
                logs = "\n".join(f"--- rank {rank}\n{self.said(rank)[-1500:]}" for rank in sorted(waiting))
                raise TimeoutError(f"{self.case}: no {text!r} from {sorted(waiting)}\n{logs}")
            time.sleep(0.05)

    def processes(self, rank: int) -> list[tuple[Node, NodeProcess]]:
        """The rank's process and those that it forked."""
        return [
            (node, process)
            for node in self.nodes
            for process in node.processes()
            if (env := process.environ()).get("HX_CASE") == self.case and env.get("RANK") == str(rank)
        ]

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Send a signal to a rank."""
        for node, process in self.processes(rank)[:1]:
            node.kill(process.pid, number)

    def end(self) -> None:
        """End all of its processes."""
        for node in self.nodes:
            for process in node.processes():
                if process.environ().get("HX_CASE") == self.case:
                    with contextlib.suppress(ProcessLookupError):
                        node.kill(process.pid)


@dataclass
class Nurseries:
    """One process with torch on each node; makes jobs."""

    cluster: Cluster
    jobs: list[FaultyJob] = field(default_factory=list)
    _launched: int = 0
    """Jobs that were ordered, those of a try that failed too: each has a folder and a port of its own."""

    def start(self) -> None:
        """Start them; jobs may be ordered at once."""
        for node in self.cluster.nodes:
            orders = _orders_of(node)
            subprocess.run(["mkfifo", str(orders)], check=True)
            words = [sys.executable, str(Path(__file__).with_name("nursery.py")), str(orders)]
            with (node.root / "nursery.log").open("wb") as log:
                node.spawn(words, env={"HX_ROOM": "x" * _ROOM, "OMP_NUM_THREADS": "1"}, stdout=log, stderr=log)

    def _orders(self, node: Node, timeout: float = 240.0) -> IO[str]:
        deadline = time.monotonic() + timeout
        while True:
            try:  # without O_NONBLOCK this waits for ever for one that has ended
                return os.fdopen(os.open(_orders_of(node), os.O_WRONLY | os.O_NONBLOCK), "w")
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                if time.monotonic() > deadline:
                    said = (node.root / "nursery.log").read_text(errors="replace")
                    raise TimeoutError(f"the nursery of {node.name} takes no orders: {said[-1500:]}") from error
            time.sleep(0.05)

    def launch(
        self,
        program: str,
        case: str,
        *,
        ranks_per_node: int = 2,
        numbered: bool = True,
        env: Mapping[str, str] | None = None,
        per_node: Mapping[str, Mapping[str, str]] | None = None,
    ) -> FaultyJob:
        """Start ``program`` of the folder faulty_jobs with ``env`` on all nodes; its name gets a number.

        ``per_node`` is what the ranks of single nodes find besides. Without ``numbered`` no rank finds its number,
        nor that of all.
        """
        case = f"{case}-{self._launched}"  # a test that is tried again starts its jobs again
        port = 29500 + self._launched
        self._launched += 1
        folder = self.cluster.shared / case
        folder.mkdir()
        nodes = self.cluster.nodes
        common = {
            "HX_CASE": case, "MASTER_ADDR": nodes[0].address, "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": "1", "HX_FOLDER": str(folder), **(env or {}),
        }  # fmt: skip
        if numbered:
            common |= {"WORLD_SIZE": str(len(nodes) * ranks_per_node), "LOCAL_WORLD_SIZE": str(ranks_per_node)}
        for index, node in enumerate(nodes):
            with self._orders(node) as orders:
                for local in range(ranks_per_node):
                    rank = index * ranks_per_node + local
                    own = {"RANK": str(rank), "LOCAL_RANK": str(local), "NODE_RANK": str(index)} if numbered else {}
                    own |= (per_node or {}).get(node.name, {})
                    order: dict[str, object] = {
                        "script": str(JOBS / program), "stdout": str(folder / f"rank{rank}.out"),
                        "stderr": str(folder / f"rank{rank}.err"), "env": {**node.environment(), **common, **own},
                    }  # fmt: skip
                    orders.write(json.dumps(order) + "\n")
        job = FaultyJob(case, folder, nodes, ranks_per_node)
        self.jobs.append(job)
        return job


def _orders_of(node: Node) -> Path:
    return node.root / "orders"


@contextlib.contextmanager
def nurseries(size: int = 2) -> Iterator[Nurseries]:
    """A cluster with a nursery on each node."""
    with Cluster(size) as cluster:
        made = Nurseries(cluster)
        made.start()
        yield made


@dataclass(frozen=True)
class Answer:
    """What ``hangtop triage --json`` printed."""

    status: int
    took: float
    data: dict[str, Any]
    errors: str

    @property
    def verdict(self) -> str:
        """The word."""
        return str(self.data["verdict"])

    @property
    def findings(self) -> list[dict[str, Any]]:
        """All findings, the root cause first."""
        return list(self.data["findings"])

    @property
    def alarms(self) -> list[str]:
        """Kinds of the findings that accuse: neither information nor a rank that is merely waited for."""
        told = [finding["kind"] for finding in self.findings if finding["severity"] != "info"]
        return [kind for kind in told if kind != "waiting"]

    def named(self) -> tuple[str, str, list[int]]:
        """The word, and kind and ranks of the root cause; the whole answer is in the message where there is none."""
        assert self.findings, json.dumps(self.data, indent=1) + self.errors
        return self.verdict, self.findings[0]["kind"], self.findings[0]["ranks"]


class Triage:
    """A triage under way. What it says on its way is shown on a terminal, as a person sees it."""

    def __init__(self, cluster: Cluster, *arguments: str, case: str | None = None) -> None:
        which = ["--job", f"HX_CASE={case}"] if case else []
        words = [sys.executable, "-c", _MAIN, "triage", *cluster.names, "-F", str(cluster.ssh_config)]
        self._began = time.monotonic()
        self._said = bytearray()
        terminal, its_end = pty.openpty()
        self._process = subprocess.Popen(
            [*words, "--json", "--batch", *which, *arguments], stdout=subprocess.PIPE, stderr=its_end, text=True
        )
        os.close(its_end)
        self._listener = threading.Thread(target=self._listen, args=(terminal,), daemon=True)
        self._listener.start()

    def _listen(self, terminal: int) -> None:
        with contextlib.suppress(OSError):  # so ends what is read of a terminal that nobody has open any more
            while said := os.read(terminal, 65536):
                self._said += said
        os.close(terminal)

    def await_watching(self, ranks: int) -> None:
        """Return when it watches so many ranks."""
        deadline = time.monotonic() + 60
        while b"watching %d ranks" % ranks not in self._said:
            assert time.monotonic() < deadline, f"hangtop did not come to watch them: {self._said.decode()}"
            time.sleep(0.05)

    def answer(self, timeout: float = 90.0) -> Answer:
        """Wait for its answer."""
        out, _ = self._process.communicate(timeout=timeout)
        took = time.monotonic() - self._began
        self._listener.join(timeout)
        errors = self._said.decode().rpartition("\x1b[2K")[2]
        assert out, f"triage ended with {self._process.returncode}: {errors}"
        return Answer(self._process.returncode, took, json.loads(out), errors)
