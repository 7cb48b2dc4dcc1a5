"""Which NCCL a rank has loaded, and whether that release reads a name."""

from __future__ import annotations

import re

from collectors.samples.ranks import RankProcess
from hangtop.diagnosis.environment.names import LATEST, NCCL_NAMES

Release = tuple[int, int]
"""Major and minor number: patches bring no names."""

_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})")


def nccl_release(process: RankProcess) -> Release | None:
    """Of the NCCL that this rank has loaded; None where that is not known."""
    found = _RELEASE.match(process.versions.get("nccl", ""))
    return (int(found.group(1)), int(found.group(2))) if found else None


def is_newer_than_known(release: Release | None) -> bool:
    """Whether this NCCL may read names that are in no table here."""
    return release is not None and release > LATEST


def unread(name: str, release: Release | None) -> str:
    """Why this release does not read a setting that another one does ("NCCL 2.21 does not read it: since 2.31").

    Empty where it does, where the release is not known, and for names of anybody else.
    """
    known = NCCL_NAMES.get(name)
    if known is None or release is None:
        return ""
    mine = f"NCCL {release[0]}.{release[1]} does not read it"
    if known.since is not None and release < known.since:
        return f"{mine}: it came with {known.since[0]}.{known.since[1]}"
    if known.until is not None and release > known.until:
        return f"{mine}: it went after {known.until[0]}.{known.until[1]}"
    return ""
