"""What the next start should have so that this hang leaves traces: settings that the job lacks, and a launch line.

The flight recorder's settings have two names: TORCH_FR_… since torch 2.8 to 2.12, TORCH_NCCL_… before. Both are given:
a release does not read the other one's.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from hangtop.diagnosis.job import Job
from hangtop.diagnosis.roster import world_size

FOLDER = "/tmp"
"""Only a suggestion for launch lines: hangtop writes nothing there."""


class Setting(NamedTuple):
    """One line of the environment, and what it is for."""

    name: str
    value: str
    why: str


_RECORDER = "flight recorder: the last collectives of every rank"
WANTED = (
    Setting("TORCH_FR_BUFFER_SIZE", "20000", f"{_RECORDER} (torch 2.12 and newer)"),
    Setting("TORCH_NCCL_TRACE_BUFFER_SIZE", "20000", f"{_RECORDER} (before)"),
    Setting("TORCH_FR_DUMP_TEMP_FILE", f"{FOLDER}/fr_", "its dumps, one a rank (torch 2.9 and newer)"),
    Setting("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", f"{FOLDER}/fr_", "its dumps, one a rank (before)"),
    Setting("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "dump when the watchdog gives up; the pipe needs it too"),
    Setting("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", f"{FOLDER}/fr_pipe_", "dumps on demand while the job goes on"),
    Setting("TORCH_NCCL_DESYNC_DEBUG", "1", "the watchdog names the rank that did not come"),
    Setting("NCCL_DEBUG", "INFO", "say what is set up, over which network, and each collective"),
    Setting("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,COLL", "COLL: one line a collective; not for long runs"),
    Setting("NCCL_DEBUG_FILE", f"{FOLDER}/nccl.%h.%p.log", "one file a process: host and pid"),
    Setting("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "names ranks that call different collectives; slow: for one run"),
    Setting("PYTHONFAULTHANDLER", "1", "Python stacks of all threads when a signal ends a rank"),
)


class NextRun(NamedTuple):
    """What to start the job with the next time."""

    settings: tuple[Setting, ...]
    """Those that some rank has not set, or has switched off."""
    torchrun: str
    """Keeps every rank's output, its first error and its own log files apart."""

    def text(self) -> list[str]:
        """Everything, as lines to copy."""
        lines = [f"export {one.name}={shlex.quote(one.value)}  # {one.why}" for one in self.settings]
        return [*lines, "", "# on every node:", self.torchrun]


def next_run(job: Job) -> NextRun:
    """Choose by the ranks' environments; a job of which nothing is known gets everything."""
    ranks = [rank.process for rank in job.ranks if rank.gone_at is None] or [rank.process for rank in job.ranks]
    off = ("", "0", "off", "false", "warn")
    lacking = tuple(
        one for one in WANTED
        if not ranks or any(process.env.get(one.name, "").lower() in off for process in ranks)
    )  # fmt: skip
    first = ranks[0] if ranks else None
    each = (first.local_world_size if first else None) or 8
    world = world_size(job) or each * max(1, len(job.nodes))
    meet = f"{(first.master_addr if first else '') or 'MASTER'}:{(first.master_port if first else None) or 29500}"
    return NextRun(lacking, (
        f"torchrun --nnodes={max(1, world // each)} --nproc_per_node={each} --rdzv_backend=c10d "
        f"--rdzv_endpoint={shlex.quote(meet)} --rdzv_id=run1 --max_restarts=0 "
        f"--log_dir={FOLDER}/elastic --redirects=3 --tee=3 train.py …"
    ))  # fmt: skip
