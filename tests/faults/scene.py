"""The nodes on which faults are struck, and hangtop's screen that watches them: what must hold whatever the fault."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.watch import Watch
from tests.support.cluster_node import Node
from tests.support.faulty import FaultyJob, Nurseries

MARK = "HX_FAULT_OF_TEST"
"""Variable of what a fault itself runs on a node: it is not hangtop's."""
SETTLE = 2.0
"""Seconds that a session is left alone before a fault, so that what a start takes is not taken for the fault's."""
MEMORY = 160.0
"""MB by which no fault may make hangtop grow; 16 MiB of stream that wait to be decoded are tenfold as objects."""
LEFT = 12.0
"""Seconds after its end until nothing of hangtop's is on a node."""
TICK = r"^Tick\("
"""The end of a look of a node, in a recording."""


@dataclass(slots=True)
class Scene:
    """Three nodes with one job, a rank each. Faults strike node2; node1 and node3 must not notice."""

    nursery: Nurseries
    folder: Path
    job: FaultyJob
    made: int = 0
    undo: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """What is called when the fault is over, whatever came of it."""

    @property
    def nodes(self) -> list[Node]:
        """All nodes."""
        return self.nursery.cluster.nodes

    @property
    def names(self) -> list[str]:
        """Their names."""
        return self.nursery.cluster.names

    @property
    def struck(self) -> Node:
        """The node that faults strike."""
        return self.nodes[1]

    def revive(self) -> None:
        """Have the job run, be the last fault what it was: one whose rank is gone is started anew."""
        if not all(self.job.processes(rank) for rank in range(len(self.nodes))):
            self.job.end()
            self.job = launched(self.nursery)

    def path(self, suffix: str) -> Path:
        """A file that is not there yet."""
        self.made += 1
        return self.folder / f"{self.made}{suffix}"

    # --- what is watched ------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def watched(
        self, *inside: str, quits: bool = True, undisturbed: tuple[str, ...] = ("node1", "node3")
    ) -> Iterator[Watch]:
        """A session that watches all nodes, live and settled; ``inside`` are words before its command.

        Afterwards it quits at a key (unless ``quits`` is false: then it has ended), has not grown, has left nothing on
        any node, and nothing has befallen the nodes that are to be ``undisturbed``.
        """
        cluster, before = self.nursery.cluster, self._foreign()
        words = [*cluster.names, "-F", str(cluster.ssh_config), "--job", f"HX_CASE={self.job.case}"]
        with Watch(self.path(".htr"), words, inside) as watch:
            watch.wait_live(self.names)
            time.sleep(SETTLE)
            watch.begin()
            began = time.time()
            yield watch
            if quits:
                assert watch.grown < MEMORY
                watch.quit()
            links = watch.links()
        assert not [change for change in links if change.node in undisturbed and change.at >= began]
        deadline = time.monotonic() + LEFT
        while left := {pid: said for pid, said in self._foreign().items() if pid not in before}:
            assert time.monotonic() < deadline, f"left on nodes: {left}"
            time.sleep(0.1)

    def _foreign(self) -> dict[int, str]:
        """Processes of nodes that are neither sshd's, nor the job's, nor the fault's: by pid here."""
        found = {}
        for node in self.nodes:
            for process in node.processes():
                environ = process.environ()
                known = "HX_CASE" in environ or MARK in environ or "nursery" in process.command
                if process.state != "Z" and not known and not process.command.startswith("sshd"):
                    found[process.host_pid] = f"{node.name}: {process.command[:100]}"
        return found

    # --- what faults do -------------------------------------------------------------------------------------------

    def kill_agent(self) -> None:
        """Kill the node side of the struck node, or what stands for it: hangtop starts another."""
        for process in self.struck.processes():
            if process.state != "Z" and ("-I -S -B -u -c exec" in process.command or MARK in process.environ()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.host_pid, signal.SIGKILL)

    def wrap_python(self, script: str) -> None:
        """Have the node side of the struck node start anew by this shell script, which stands for ``python3``."""
        python = self.struck.tool("python3", f"#!/bin/sh\n{script}\n")
        self.undo.callback(self.kill_agent)
        self.undo.callback(python.unlink, missing_ok=True)
        self.kill_agent()

    def restart_sshd(self) -> None:
        """Have the struck node's sshd begin anew, with every connection to it."""
        with contextlib.suppress(FileNotFoundError):  # none listens
            self.struck.stop_sshd()
        self.struck.start_sshd()

    def spawn(self, *words: str) -> None:
        """Run something of the fault's own on the struck node, for as long as the fault lasts."""
        process = self.struck.spawn(words, env={MARK: "1"})

        def end() -> None:
            while mine := [one for one in self.struck.processes() if MARK in one.environ()]:
                for one in mine:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(one.host_pid, signal.SIGKILL)
                time.sleep(0.2)
            process.wait()

        self.undo.callback(end)

    def rules(self, **chains: str) -> None:
        """Have the struck node filter packets by a rule a chain (``input``, ``output``)."""
        text = "".join(
            f"chain {hook} {{ type filter hook {hook} priority 0; {rule}; }}\n" for hook, rule in chains.items()
        )
        self.struck.run(["nft", "-f", "-"], stdin=f"table inet hx {{\n{text}}}\n")
        self.undo.callback(self.struck.run, ["nft", "delete", "table", "inet", "hx"])


def launched(nursery: Nurseries) -> FaultyJob:
    """A job that trains, a rank a node."""
    job = nursery.launch("lm.py", "trains", ranks_per_node=1, env={"HX_PAUSE": "0.2"})
    job.wait_for("moves")
    return job
