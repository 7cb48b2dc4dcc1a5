"""What the next start should have so that this hang leaves traces: settings that the job lacks, and launch lines.

Names go by the releases that read them: the flight recorder's are called TORCH_FR_… since torch 2.8 (before
TORCH_NCCL_TRACE_…), but up to 2.11 its pipe is armed by the older name of its size alone. Where a version is not known,
both generations are given: the wrong one is not read by anybody.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.roster import world_size

FOLDER = "/tmp"
"""Only a suggestion for launch lines: hangtop writes nothing there."""
Release = tuple[int, ...]
ALWAYS: Release = ()
NEVER: Release = (999,)


class Setting(NamedTuple):
    """One line of the environment, and what it is for."""

    name: str
    value: str
    why: str
    library: str = "torch"
    since: Release = ALWAYS
    """First release that reads it."""
    until: Release = NEVER
    """First release that does not read it any more."""
    also: tuple[str, ...] = ()
    """Other names under which it counts as set."""
    enough: str = ""
    """What a value that is set already must match."""

    def line(self) -> str:
        """As a shell takes it."""
        return f"export {self.name}={shlex.quote(self.value)}  # {self.why}"


_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_RECORDER = "flight recorder: the last collectives of every rank"

WANTED = (
    Setting(_SIZES[0], "20000", _RECORDER, since=(2, 12), also=_SIZES[1:], enough=r"\s*[1-9].*"),
    Setting(_SIZES[1], "20000", _RECORDER, since=(2, 2), until=(2, 12), enough=r"\s*[1-9].*"),
    Setting(_FILES[0], f"{FOLDER}/fr_", "its dumps, one a rank", since=(2, 9), also=_FILES),
    Setting(_FILES[1], f"{FOLDER}/fr_", "its dumps, one a rank", since=(2, 2), until=(2, 9), also=_FILES),
    Setting("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "dump when the watchdog gives up; the pipe needs it too", since=(2, 2),
            enough=r"(?i)(?!\s*(?:0|false|no?|off)\s*$).*"),
    Setting("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", f"{FOLDER}/fr_pipe_", "dumps on demand while the job goes on",
            since=(2, 2)),
    Setting("TORCH_NCCL_DESYNC_DEBUG", "1", "the watchdog names the rank that did not come", since=(2, 2),
            also=("NCCL_DESYNC_DEBUG",)),
    Setting("NCCL_DESYNC_DEBUG", "1", "names the rank that did not come (this torch has no recorder)", until=(2, 2),
            also=("TORCH_NCCL_DESYNC_DEBUG",)),
    Setting("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "480", "seconds until a rank with a silent watchdog ends",
            since=(2, 2)),
    Setting("NCCL_DEBUG", "INFO", "say what is set up, over which network, and each collective",
            enough=r"(?i)info|trace"),
    Setting("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,COLL", "COLL: one line a collective; not for long runs",
            enough=r"(?i)(?:.*,)?(?:coll|all)(?:,.*)?"),
    Setting("NCCL_DEBUG_FILE", f"{FOLDER}/nccl.%h.%p.log", "one file a process: host and pid", enough=r".*%p.*"),
    Setting("NCCL_DEBUG_TIMESTAMP_LEVELS", "ALL", "times in every line (NCCL 2.26 and newer)", "nccl", (2, 26)),
    Setting("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "names ranks that call different collectives; slow: for one run",
            enough=r"(?i)detail"),
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


@dataclass(frozen=True, slots=True)
class NextRun:
    """What to start the job with the next time."""

    settings: tuple[Setting, ...]
    present: tuple[str, ...]
    """Names that the job has already."""
    torchrun: str
    srun: str
    code: tuple[str, ...]
    basis: str
    """By which versions the names were chosen."""

    def text(self) -> list[str]:
        """Everything, as lines to copy."""
        lines = [f"# {self.basis}"]
        lines += [f"# set already: {', '.join(self.present)}"] if self.present else []
        lines += [setting.line() for setting in self.settings]
        lines += ["", "# with torchrun, on every node:", self.torchrun]
        lines += ["", "# with Slurm:", self.srun]
        return [*lines, "", "# in the script:", *self.code]


def next_run(job: Job) -> NextRun:
    """Choose by the job's environment and versions; a job of which nothing is known gets everything."""
    ranks = [rank for rank in job.ranks if rank.gone_at is None] or list(job.ranks)
    releases = {library: _release(ranks, library) for library in ("torch", "nccl")}
    read = [s for s in WANTED if not (own := releases[s.library]) or s.since <= own < s.until]
    unclear = [s for s in read if not (s.name == "NCCL_DESYNC_DEBUG" and not releases["torch"])]
    present = [setting for setting in unclear if _has(ranks, setting, unknown=not releases["torch"])]
    known = [f"{name} {'.'.join(map(str, found))}" for name, found in releases.items() if found]
    missing = [name for name, found in releases.items() if not found]
    basis = f"chosen for {' and '.join(known)}" if known else "for any release"
    basis += f"; {' and '.join(missing)} not known: names of all releases" if known and missing else ""
    lacking = tuple(setting for setting in unclear if setting not in present)
    return NextRun(lacking, tuple(s.name for s in present), _torchrun(job, ranks), _srun(ranks), CODE, basis)


def _has(ranks: Sequence[Rank], setting: Setting, *, unknown: bool) -> bool:
    """Whether every rank has it, under any of its names, with a value that will do."""
    names: Collection[str] = {setting.name, *setting.also, *(_SIZES if unknown and setting.name in _SIZES else ())}
    return bool(ranks) and all(
        any(not setting.enough or re.fullmatch(setting.enough, value.strip())
            for name, value in rank.process.env.items() if name in names)
        for rank in ranks
    )  # fmt: skip


def _release(ranks: Sequence[Rank], name: str) -> Release:
    """The oldest release among the ranks, as (major, minor, …); empty when none is known."""
    found = [tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
             for rank in ranks if (version := rank.process.versions.get(name, ""))]  # fmt: skip
    return min((release for release in found if len(release) > 1), default=())


def _script(ranks: Sequence[Rank]) -> str:
    """The training script and its arguments, as rank 0 shows them; a shell takes each word for itself alone.

    Which words they are its user chose, and the user that copies the line may be root.
    """
    for rank in ranks:
        program, _, rest = rank.process.command.partition(" ")
        rest = rest.removeprefix("-u ").strip()
        if "python" in program.rpartition("/")[2] and rest and not rest.startswith("-"):
            return " ".join(map(shlex.quote, rest.split()))
    return "train.py …"


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


def _srun(ranks: Sequence[Rank]) -> str:
    """An srun that labels and keeps every task's output, and ends the others when one fails."""
    return (
        "srun --export=ALL --label --unbuffered --kill-on-bad-exit=1 --output=%x.%j.%N.%t.log "
        f"python -u {_script(ranks)}"
    )
