"""What the next start should have so that this hang leaves traces: settings that the job lacks, and launch lines.

Names go by the releases that read them: the flight recorder's are called TORCH_FR_… since torch 2.8 (before
TORCH_NCCL_TRACE_…), but up to 2.11 its pipe is armed by the older name of its size alone; TORCH_NCCL_… are older
torch's NCCL_… (see ``advice.RENAMED``); NCCL's own are in ``names.NCCL_NAMES``. Where a version is not known, both
generations are given: the wrong one is not read by anybody.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hangtop.diagnosis.environment.names import NCCL_NAMES
from hangtop.diagnosis.job import Job, Rank
from hangtop.diagnosis.roster import world_size

FOLDER = "/tmp"
"""Only a suggestion for launch lines: hangtop writes nothing there."""
Release = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the environment, and what it is for."""

    name: str
    value: str
    why: str

    def line(self) -> str:
        """As a shell takes it."""
        return f"export {self.name}={shlex.quote(self.value)}  # {self.why}"


@dataclass(frozen=True, slots=True)
class Catching:
    """What to start the job with the next time."""

    settings: tuple[Setting, ...]
    present: tuple[str, ...]
    """Names that the job has already."""
    torchrun: str
    srun: str
    code: tuple[str, ...]
    """Lines for the training script."""
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


@dataclass(frozen=True, slots=True)
class _Wish:
    """A setting and what decides whether it is wanted."""

    setting: Setting
    also: tuple[str, ...] = ()
    """Other names under which it counts as set."""
    enough: Callable[[str], bool] = lambda _: True
    """Whether a value that is set already does."""


def catching(job: Job) -> Catching:
    """Choose by the job's environment and versions; a job of which nothing is known gets everything."""
    ranks = [rank for rank in job.ranks if rank.gone_at is None] or list(job.ranks)
    torch, nccl = _release(ranks, "torch"), _release(ranks, "nccl")
    settings, present = [], []
    for wish in _wishes(torch, nccl):
        if _has(ranks, wish):
            present.append(wish.setting.name)
        else:
            settings.append(wish.setting)
    known = [f"{name} {'.'.join(map(str, found))}" for name, found in (("torch", torch), ("NCCL", nccl)) if found]
    unknown = [name for name, found in (("torch", torch), ("NCCL", nccl)) if not found]
    basis = f"chosen for {' and '.join(known)}" if known else "for any release"
    basis += f"; {' and '.join(unknown)} not known: names of all releases" if known and unknown else ""
    return Catching(tuple(settings), tuple(present), _torchrun(job, ranks), _srun(ranks), CODE, basis)


def _wishes(torch: Release, nccl: Release) -> Iterator[_Wish]:
    yield from _recorder(torch)
    yield _Wish(Setting("NCCL_DEBUG", "INFO", "say what is set up, over which network, and each collective"),
                enough=lambda value: value.upper() in {"INFO", "TRACE"})  # fmt: skip
    yield _Wish(Setting("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,COLL", "COLL: one line a collective; not for long runs"),
                enough=lambda value: {"COLL", "ALL"} & set(value.upper().split(",")) != set())  # fmt: skip
    yield _Wish(Setting("NCCL_DEBUG_FILE", f"{FOLDER}/nccl.%h.%p.log", "one file a process: host and pid"),
                enough=lambda value: "%p" in value)  # fmt: skip
    since = NCCL_NAMES["NCCL_DEBUG_TIMESTAMP_LEVELS"].since
    if not nccl or since is None or nccl >= since:
        yield _Wish(Setting("NCCL_DEBUG_TIMESTAMP_LEVELS", "ALL", "times in every line (NCCL 2.26 and newer)"))
    yield _Wish(
        Setting("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "names ranks that call different collectives; slow: for one run"),
        enough=lambda value: value.upper() == "DETAIL",
    )
    yield _Wish(Setting("PYTHONFAULTHANDLER", "1", "Python stacks of all threads when a signal ends a rank"))


def _recorder(torch: Release) -> Iterator[_Wish]:
    """The flight recorder and what asks it: by torch's release."""
    if torch and torch < (2, 2):
        yield _Wish(Setting("NCCL_DESYNC_DEBUG", "1", "names the rank that did not come (this torch has no recorder)"))
        return
    sizes = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
    files = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    for name, wanted, when in ((sizes[0], not torch or torch >= (2, 12), "2.12 and newer"),
                               (sizes[1], not torch or torch < (2, 12), "2.2 to 2.11")):  # fmt: skip
        if wanted:
            why = f"flight recorder (torch {when}): the last collectives of every rank"
            also = (sizes[1],) if torch else sizes
            yield _Wish(Setting(name, "20000", why), also, lambda value: value.strip() not in {"", "0"})
    for name, wanted, when in ((files[0], not torch or torch >= (2, 9), "2.9 and newer"),
                               (files[1], not torch or torch < (2, 9), "2.2 to 2.8")):  # fmt: skip
        if wanted:
            yield _Wish(Setting(name, f"{FOLDER}/fr_", f"its dumps, one a rank (torch {when})"), files)
    yield _Wish(
        Setting("TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "dump when the watchdog gives up; the pipe needs it too"),
        enough=lambda value: value.strip().lower() not in {"0", "false", "no", "n", "off"},
    )
    pipe = Setting("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", f"{FOLDER}/fr_pipe_", "dumps on demand while the job goes on")
    yield _Wish(pipe)
    yield _Wish(
        Setting("TORCH_NCCL_DESYNC_DEBUG", "1", "the watchdog names the rank that did not come"), ("NCCL_DESYNC_DEBUG",)
    )
    yield _Wish(Setting("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "480", "seconds until a rank with a silent watchdog ends"))


CODE = (
    "from datetime import timedelta",
    "from torch.distributed.elastic.multiprocessing.errors import record",
    "torch.distributed.init_process_group(…, timeout=timedelta(minutes=10))  # and the same for every new_group()",
    "@record  # on main(): the traceback of the rank that failed first goes into torchrun's report",
    "def main(): …",
)


def _has(ranks: list[Rank], wish: _Wish) -> bool:
    """True when every rank has it, under any of its names, with a value that will do."""

    def has(environment: Mapping[str, str]) -> bool:
        values = [environment[name] for name in (wish.setting.name, *wish.also) if name in environment]
        return any(wish.enough(value) for value in values)

    return bool(ranks) and all(has(rank.process.env) for rank in ranks)


def _release(ranks: list[Rank], name: str) -> Release:
    """The oldest release among the ranks, as (major, minor, …); empty when none is known."""
    found = [tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
             for rank in ranks if (version := rank.process.versions.get(name, ""))]  # fmt: skip
    return min((release for release in found if len(release) > 1), default=())


def _script(ranks: list[Rank]) -> str:
    """The training script and its arguments, as rank 0 shows them; a shell takes each word for itself alone.

    Which words they are its user chose, and whoever copies the line may be root.
    """
    for rank in ranks:
        program, _, rest = rank.process.command.partition(" ")
        rest = rest.removeprefix("-u ").strip()
        if "python" in program.rpartition("/")[2] and rest and not rest.startswith("-"):
            return " ".join(map(shlex.quote, rest.split()))
    return "train.py …"


def _torchrun(job: Job, ranks: list[Rank]) -> str:
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


def _srun(ranks: list[Rank]) -> str:
    """An srun that labels and keeps every task's output, and ends the others when one fails."""
    return (
        "srun --export=ALL --label --unbuffered --kill-on-bad-exit=1 --output=%x.%j.%N.%t.log "
        f"python -u {_script(ranks)}"
    )
