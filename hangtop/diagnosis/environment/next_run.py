"""What the next start should have so that this hang leaves traces: settings that the job lacks, and launch lines.

The flight recorder's settings have two names: TORCH_FR_… since torch 2.8 to 2.12, TORCH_NCCL_… before. Both are given:
a release does not read the other one's.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.roster import world_size

FOLDER = "/tmp"
"""Only a suggestion for launch lines: hangtop writes nothing there."""


class Setting(NamedTuple):
    """One line of the environment, and what it is for."""

    name: str
    value: str
    why: str
    enough: str = r".*"
    """What a value that is set already must match."""


_RECORDER, _POSITIVE = "flight recorder: the last collectives of every rank", r"\s*[1-9].*"
WANTED = (
    Setting("TORCH_FR_BUFFER_SIZE", "20000", f"{_RECORDER} (torch 2.12 and newer)", _POSITIVE),
    Setting("TORCH_NCCL_TRACE_BUFFER_SIZE", "20000", f"{_RECORDER} (before)", _POSITIVE),
    Setting("TORCH_FR_DUMP_TEMP_FILE", f"{FOLDER}/fr_", "its dumps, one a rank (torch 2.9 and newer)"),
    Setting("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", f"{FOLDER}/fr_", "its dumps, one a rank (before)"),
    Setting("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "dump when the watchdog gives up; the pipe needs it too",
            r"(?i)(?!\s*(?:0|false|no?|off)\s*$).*"),
    Setting("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", f"{FOLDER}/fr_pipe_", "dumps on demand while the job goes on"),
    Setting("TORCH_NCCL_DESYNC_DEBUG", "1", "the watchdog names the rank that did not come"),
    Setting("NCCL_DEBUG", "INFO", "say what is set up, over which network, and each collective", r"(?i)info|trace"),
    Setting("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,COLL", "COLL: one line a collective; not for long runs",
            r"(?i)(?:.*,)?(?:coll|all)(?:,.*)?"),
    Setting("NCCL_DEBUG_FILE", f"{FOLDER}/nccl.%h.%p.log", "one file a process: host and pid", r".*%p.*"),
    Setting("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "names ranks that call different collectives; slow: for one run",
            r"(?i)detail"),
    Setting("PYTHONFAULTHANDLER", "1", "Python stacks of all threads when a signal ends a rank"),
)  # fmt: skip
CODE = (
    "from datetime import timedelta",
    "from torch.distributed.elastic.multiprocessing.errors import record",
    "torch.distributed.init_process_group(…, timeout=timedelta(minutes=10))  # and the same for every new_group()",
    "@record  # on main(): the traceback of the rank that failed first goes into torchrun's report",
    "def main(): …",
)
"""Lines for the training script."""


class NextRun(NamedTuple):
    """What to start the job with the next time."""

    settings: tuple[Setting, ...]
    """Those that some rank lacks."""
    torchrun: str

    def text(self) -> list[str]:
        """Everything, as lines to copy."""
        lines = [f"export {one.name}={shlex.quote(one.value)}  # {one.why}" for one in self.settings]
        return [*lines, "", "# on every node:", self.torchrun, "", "# in the script:", *CODE]


def next_run(job: Job) -> NextRun:
    """Choose by the ranks' environments; a job of which nothing is known gets everything."""
    ranks = [rank for rank in job.ranks if rank.gone_at is None] or list(job.ranks)
    lacking = tuple(
        setting for setting in WANTED
        if not ranks or not all(
            setting.name in env and re.fullmatch(setting.enough, env[setting.name].strip())
            for env in (rank.process.env for rank in ranks)
        )
    )  # fmt: skip
    return NextRun(lacking, _torchrun(job, ranks))


def _torchrun(job: Job, ranks: Sequence[Rank]) -> str:
    """A torchrun that keeps every rank's output, its first error and its own log files apart."""
    first = ranks[0].process if ranks else None
    each = (first.local_world_size if first else None) or 8
    world = world_size(job) or each * max(1, len(job.nodes))
    address = (first.master_addr if first else "") or "MASTER"
    port = (first.master_port if first else None) or 29500
    return (
        f"torchrun --nnodes={max(1, world // each)} --nproc_per_node={each} --rdzv_backend=c10d "
        f"--rdzv_endpoint={shlex.quote(f'{address}:{port}')} --rdzv_id=run1 --max_restarts=0 "
        f"--log_dir={FOLDER}/elastic --redirects=3 --tee=3 {_script(ranks)}"
    )


def _script(ranks: Sequence[Rank]) -> str:
    """The training script and its arguments, as rank 0 shows them, quoted: who copies the line may be root."""
    for rank in ranks:
        program, _, rest = rank.process.command.partition(" ")
        rest = rest.removeprefix("-u ").strip()
        if "python" in program.rpartition("/")[2] and rest and not rest.startswith("-"):
            return " ".join(map(shlex.quote, rest.split()))
    return "train.py …"
