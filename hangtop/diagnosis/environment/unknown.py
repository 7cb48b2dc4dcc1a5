"""Names that nobody reads: circulating advice, misspelt ones, and those of another release than the loaded one."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache

from hangtop.diagnosis.environment.about import finding_about
from hangtop.diagnosis.environment.advice import MYTHS, RENAMED
from hangtop.diagnosis.environment.names import BUILD_NAMES, LATEST, NCCL_NAMES, PLUGIN_PREFIXES, TORCH_NAMES
from hangtop.diagnosis.environment.releases import is_newer_than_known, nccl_release, unread
from hangtop.diagnosis.environment.settings import settings
from hangtop.diagnosis.finding import Finding
from hangtop.diagnosis.job import Job, Rank

JUDGED_PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_")


def unknown_names(job: Job) -> Iterator[Finding]:
    """env_unknown: a name that neither NCCL nor PyTorch ever reads, with the real knob or the nearest real name."""
    for (name, value), ranks in job.once(settings).items():
        myth = MYTHS.get(name)
        if myth:
            yield finding_about(
                "env_unknown", "warning", ranks, (name, value),
                f"nobody reads {name}: set for {myth.wanted}, it does nothing",
                f"Remove it. What does it: {myth.instead}.",
            )  # fmt: skip
        elif not _is_known(name):
            yield from _unknown_name(name, value, ranks)
        else:
            yield from _unread_name(name, value, ranks)


def _unknown_name(name: str, value: str, ranks: list[Rank]) -> Iterator[Finding]:
    near = _nearest(name)
    judged = ranks
    if not near and name.startswith("NCCL_"):  # a later NCCL than we know may well read it
        judged = [rank for rank in ranks if not is_newer_than_known(nccl_release(rank.process))]
    if judged:
        newest = f"{LATEST[0]}.{LATEST[1]}"
        yield finding_about(
            "env_unknown", "info", judged, (name, value),
            f"{name} is no setting that NCCL (2.10 to {newest}) or PyTorch reads" + (f"; {near} is" if near else ""),
            f"Did you mean {near}?" if near else "Remove it, unless a plugin of yours reads it.",
            weight=0.8 if near else 0.5,
        )  # fmt: skip


def _unread_name(name: str, value: str, ranks: list[Rank]) -> Iterator[Finding]:
    """A real name, for another release of NCCL than the one that is loaded."""
    by_reason: dict[str, list[Rank]] = defaultdict(list)
    for rank in ranks:
        by_reason[unread(name, nccl_release(rank.process))].append(rank)
    by_reason.pop("", None)
    for reason, judged in by_reason.items():
        yield finding_about(
            "env_unknown", "info", judged, (name, value), f"{name}={value} does nothing here: {reason}",
            "Remove it, or run with a release that reads it.",
        )  # fmt: skip


@lru_cache(maxsize=256)
def _nearest(name: str) -> str:
    """The real name that is most like this one; empty where none is."""
    near = difflib.get_close_matches(name, [*NCCL_NAMES, *TORCH_NAMES, *RENAMED], n=1, cutoff=0.85)
    return near[0] if near else ""


def _is_known(name: str) -> bool:
    if not name.startswith(JUDGED_PREFIXES):
        return True
    return (
        name in NCCL_NAMES
        or name in TORCH_NAMES
        or name in RENAMED
        or name in BUILD_NAMES
        or name.startswith(PLUGIN_PREFIXES)
    )
