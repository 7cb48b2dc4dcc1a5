"""Every way to hang that real ranks are made to, and what must be said of each."""

from __future__ import annotations

import signal
from typing import NamedTuple

from tests.support.faulty import Answer, FaultyJob, Nurseries


class HungCase(NamedTuple):
    """One fault, where it strikes, and what must be said of it."""

    program: str
    fault: str
    who: int
    kind: str
    ranks: tuple[int, ...]
    says: str
    signal: int = 0
    outcome: str = "hung"
    """``waiting`` where the rank is at work, or what it waits for may yet come: it is named, and not accused."""

    def launch(self, nursery: Nurseries, name: str) -> FaultyJob:
        """Start its job."""
        return nursery.launch(self.program, name, env={"HX_FAULT": self.fault, "HX_WHO": str(self.who)})

    def strike(self, job: FaultyJob) -> None:
        """Return when the fault has struck."""
        if self.signal:
            job.wait_for("moves")
            job.signal(self.who, signal.Signals(self.signal))
        else:
            job.wait_for("struck", self.who)

    def check(self, answer: Answer) -> None:
        """Kind and culprit are right, and nobody else is blamed."""
        nodes = [f"node{1 + rank // 2}" for rank in self.ranks]
        assert answer.named() == (self.outcome, self.kind, list(self.ranks)), (answer.data["summary"], answer.took)
        first = answer.findings[0]
        assert first["nodes"] == sorted(set(nodes))
        assert self.says in first["summary"] + " ".join(line["text"] for line in first["evidence"])
        assert answer.status == (6 if self.outcome == "waiting" else 1)
        assert answer.alarms == ([] if self.outcome == "waiting" else [self.kind]), "one fault is told once"


CASES = {
    "reader": HungCase("lm.py", "reader", 2, "rank_stuck_in_data", (2,), "token_pages"),
    "data_worker": HungCase("vision.py", "worker", 1, "rank_stuck_in_data", (1,), "fetch_remote"),
    "checkpoint_of_rank_0": HungCase("lm.py", "checkpoint", 0, "rank_stuck_in_checkpoint", (0,), "write_state"),
    "checkpoint_of_another": HungCase("lm.py", "checkpoint", 3, "rank_stuck_in_checkpoint", (3,), "write_state"),
    "lock": HungCase("lm.py", "lock", 1, "rank_stuck_on_lock", (1,), "refresh_vocabulary"),
    "lock_in_a_pair": HungCase("mesh.py", "pair_lock", 2, "rank_stuck_on_lock", (2,), "Mesh.forward"),
    "busy_loop": HungCase("lm.py", "busy", 3, "waiting", (3,), "busy", outcome="waiting"),
    "sleep": HungCase("lm.py", "nap", 0, "waiting", (0,), "time.sleep, 24.0 h left", outcome="waiting"),
    "stopped": HungCase("lm.py", "none", 1, "rank_stopped", (1,), "stopped", signal.SIGSTOP),
    "collective_on_one_rank": HungCase("vision.py", "only_here", 0, "collective_mismatch", (0,), "share_histogram"),
    "fewer_batches": HungCase("vision.py", "fewer_batches", 3, "collective_mismatch", (3,), "on_fit_end"),
    "pair_disagrees": HungCase("mesh.py", "pair_disagrees", 1, "collective_mismatch", (0, 1), "reduce"),
    "both_receive": HungCase("mesh.py", "both_receive", 2, "p2p_deadlock", (2, 3), "recv"),
}
