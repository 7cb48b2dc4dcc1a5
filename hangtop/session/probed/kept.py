"""The last probe of each set of nodes, kept in the user's state folder so that the next one can be compared with it."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.samples.probes import ProbeReport

FORMAT = 1
LARGEST = 1 << 20
"""Bytes: a file that is larger is none of ours."""


@dataclass(frozen=True, slots=True)
class Previous:
    """An earlier probe of the same nodes with the same backend."""

    at: float
    """Seconds since the epoch."""
    busbw: Mapping[tuple[str, int], float]
    """GB/s by operation and size in bytes."""
    pairs: Mapping[tuple[str, str], float]
    """GB/s by pair, only of those that finished."""


def folder() -> Path:
    """Where they are kept."""
    import platformdirs

    return platformdirs.user_state_path("hangtop") / "probes"


def path_of(backend: str, nodes: Iterable[str]) -> Path:
    """File of a set of nodes, whatever their order."""
    names = "\n".join(sorted(set(nodes)))
    return folder() / f"{backend}-{hashlib.sha256(names.encode('utf-8', 'replace')).hexdigest()[:16]}.json"


def as_previous(report: ProbeReport) -> Previous:
    """What is worth keeping of a report."""
    return Previous(
        report.at,
        {(figure.op, figure.size): figure.busbw for figure in report.figures},
        {(pair.a, pair.b): pair.busbw for pair in report.pairs if pair.busbw is not None},
    )


def load(path: Path) -> Previous | None:
    """The earlier probe; None when there is none, or none that can be read."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.read(LARGEST))
    except (OSError, ValueError, RecursionError):
        return None
    return _read(document)


def _read(document: Any) -> Previous | None:
    """Check every value: the file may be cut off, from another version, or somebody else's."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return None
    try:
        return Previous(
            float(document["at"]),
            {(str(op), int(size)): float(speed) for op, size, speed in document["results"]},
            {(str(a), str(b)): float(speed) for a, b, speed in document["pairs"]},
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def save(path: Path, kept: Previous, nodes: Iterable[str]) -> None:
    """Replace what was kept for these nodes, whole or not at all. Raises :class:`OSError`."""
    document = {
        "format": FORMAT,
        "at": kept.at,
        "nodes": sorted(set(nodes)),
        "results": [[op, size, speed] for (op, size), speed in sorted(kept.busbw.items())],
        "pairs": [[a, b, speed] for (a, b), speed in sorted(kept.pairs.items())],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            json.dump(document, file)
        Path(name).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
