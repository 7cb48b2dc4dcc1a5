"""Jobs of real ranks whose truth is known, and what hangtop must say of each.

The programs are those of ``faulty_jobs``. All but ``device.py`` wait in torch, over gloo; its ranks wait below Python,
as over NCCL.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import NamedTuple

from tests.support.devices import Devices
from tests.support.faulty import Answer, FaultyJob, Nurseries, Triage
from tests.support.simulated_nccl.library import build

HANGS = ("hung",)
WAITS = ("waiting",)
"""The rank is at work, or what it waits for may yet come: it is named, and not accused."""
MAY_WAIT = ("healthy", "waiting", "starting", "unknown")
"""No step ends while the job is watched, and one rank may be at work for the others."""
TOGETHER = ("collective_stalled", "job_stalled", "collective_mismatch")
"""Kinds of a job in which all ranks wait for their GPUs and nothing tells them apart."""


class RealJob(NamedTuple):
    """One job and the truth about it."""

    program: str
    fault: str = "none"
    who: int = 0
    words: tuple[str, ...] = ("healthy",)
    """Verdicts that are right."""
    kinds: tuple[str, ...] = ()
    """Kinds of which the first finding has one; none: nothing may be raised."""
    ranks: tuple[int, ...] | None = ()
    """Ranks of the first finding; None where no rank can be told from the others: then no other may be named."""
    says: str = ""
    """What summary or evidence of the first finding says."""
    word: str = "struck"
    """The job is asked about when ``who`` has written this, …"""
    signal: int = 0
    """… or has then been sent this signal."""
    env: tuple[tuple[str, str], ...] = ()
    slow: bool = False
    """Runs with ``--slow``."""

    def launch(self, nursery: Nurseries, name: str, devices: Devices | None = None) -> FaultyJob:
        """Start it; on the nodes' simulated GPUs, where it is to wait for them."""
        env = {"HX_FAULT": self.fault, "HX_WHO": str(self.who), **dict(self.env)}
        if devices is not None:
            env["HX_LIBRARY"] = str(build(nursery.cluster.root / "cuda"))
        return nursery.launch(self.program, name, env=env, per_node=devices.environment if devices else None)

    def strike(self, job: FaultyJob) -> None:
        """Return when the fault has struck."""
        job.wait_for(self.word, self.who)
        if self.signal:
            job.signal(self.who, signal.Signals(self.signal))

    def wrong(self, answer: Answer) -> str:
        """What is wrong with an answer; empty when it is right."""
        told = f"{answer.verdict}: {answer.data['summary']}"
        accuses = self.words not in (("healthy",), MAY_WAIT, WAITS)
        if answer.verdict not in self.words or answer.status != {"healthy": 0, "waiting": 6}.get(answer.verdict, 1):
            return told
        if not accuses and answer.alarms:
            return f"{', '.join(answer.alarms)} raised"
        if not self.kinds:
            return ""
        first = answer.findings[0]
        said = first["summary"] + " ".join(line["text"] for line in first["evidence"])
        if first["kind"] not in self.kinds or self.says not in said:
            return f"{first['kind']}, {told}"
        if self.ranks is None:
            others = 0 < len(first["ranks"]) < 4 and self.who not in first["ranks"]
            return f"ranks {first['ranks']} are accused" if others else ""
        nodes = sorted({f"node{1 + rank // 2}" for rank in self.ranks})
        if (tuple(first["ranks"]), first["nodes"]) != (self.ranks, nodes):
            return f"ranks {first['ranks']} on {first['nodes']} are named"
        return "" if answer.alarms == [first["kind"]] * accuses else f"{', '.join(answer.alarms)} raised for one fault"


def _hung(program: str, fault: str, who: int, kind: str, says: str, *ranks: int) -> RealJob:
    return RealJob(program, fault, who, HANGS, (kind,), ranks or (who,), says)


HANGING: dict[str, RealJob] = {
    "busy_loop": RealJob("lm.py", "busy", 3, WAITS, ("waiting",), (3,), "busy"),
    "data_worker": _hung("vision.py", "worker", 1, "rank_stuck_in_data", "fetch_remote"),
    "checkpoint_of_rank_0": _hung("lm.py", "checkpoint", 0, "rank_stuck_in_checkpoint", "write_state"),
    "lock": _hung("lm.py", "lock", 1, "rank_stuck_on_lock", "refresh_vocabulary"),
    "lock_in_a_pair": _hung("mesh.py", "pair_lock", 2, "rank_stuck_on_lock", "Mesh.forward"),
    "sleep": RealJob("lm.py", "nap", 0, WAITS, ("waiting",), (0,), "time.sleep, 24.0 h left"),
    "stopped": RealJob("lm.py", "none", 1, HANGS, ("rank_stopped",), (1,), "stopped", "moves", signal.SIGSTOP),
    "collective_on_one_rank": _hung("vision.py", "only_here", 0, "collective_mismatch", "share_histogram"),
    "fewer_batches": _hung("vision.py", "fewer_batches", 3, "collective_mismatch", "on_fit_end"),
    "pair_disagrees": _hung("mesh.py", "pair_disagrees", 1, "collective_mismatch", "reduce", 0, 1),
    "both_receive": _hung("mesh.py", "both_receive", 2, "p2p_deadlock", "recv", 2, 3),
}
PAUSING: dict[str, RealJob] = {
    "compiles_for_30_s": RealJob("vision.py", "trace", 2, MAY_WAIT),
    "saves_for_30_s": RealJob("lm.py", "slow_save", 0, MAY_WAIT),
    "steps_of_20_s": RealJob("lm.py", words=MAY_WAIT, word="up", env=(("HX_PAUSE", "20"),)),
}
MOVING: dict[str, RealJob] = {
    "fast_trainer": RealJob("vision.py", word="moves"),
    "fast_mesh": RealJob("mesh.py", word="moves"),
    "slow_rank": RealJob("vision.py", "slow", 2, ("slow",), ("straggler_rank",), (2,), "augment_again", word="moves"),
}
DEVICE: dict[str, RealJob] = {
    "below_python_reader": _hung("device.py", "reader", 2, "rank_stuck_in_data", "read_batch"),
    "below_python_missing": RealJob("device.py", "missing", 2, HANGS, TOGETHER, None, slow=True),
    "below_python_gpu_hangs": RealJob("device.py", "gpu_hangs", 2, HANGS, TOGETHER, None, slow=True),
    "below_python_moves": RealJob("device.py", word="moves", slow=True),
    "below_python_evaluates": RealJob("device.py", "evaluates", 0, MAY_WAIT, slow=True),
}


class Batches:
    """Answers about jobs, some side by side; a batch is run when the first of its answers is asked for.

    While hangtop watches the jobs of one batch, those of the next one are started already: what takes a processor for
    itself belongs into the first.
    """

    def __init__(
        self, nursery: Nurseries, jobs: dict[str, RealJob], *, at_once: int, devices: Devices | None = None
    ) -> None:
        self._nursery, self.rows, self._at_once, self._devices = nursery, jobs, at_once, devices
        self._names = list(jobs)
        self._jobs: dict[str, FaultyJob] = {}
        self._answers: dict[str, Answer] = {}

    def __getitem__(self, name: str) -> Answer:
        if name not in self._answers:
            self._run(self._names.index(name) // self._at_once * self._at_once)
        return self._answers[name]

    def _launch(self, names: Sequence[str]) -> None:
        for name in names:
            self._jobs[name] = self._jobs.get(name) or self.rows[name].launch(self._nursery, name, self._devices)

    def _run(self, first: int) -> None:
        names = self._names[first : first + self._at_once]
        self._launch(names)
        for name in names:
            self.rows[name].strike(self._jobs[name])
        asked = {name: Triage(self._nursery.cluster, case=self._jobs[name].case) for name in names}
        if self._devices is None:  # a node's simulated GPUs are one job's
            self._launch(self._names[first + self._at_once : first + 2 * self._at_once])
        for name, one in asked.items():
            self._answers[name] = one.answer()
            self._jobs.pop(name).end()
