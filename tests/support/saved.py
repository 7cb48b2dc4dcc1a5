"""What is read of output that somebody saved."""

from __future__ import annotations

from pathlib import Path

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session


def verdict(folder: Path, text: str = "", name: str = "out.txt", **others: str) -> Verdict:
    """The verdict on a folder with this text in a file, and with other logs by their names."""
    for path, content in {name: text, **{f"{other}.log": content for other, content in others.items()}}.items():
        if content:
            (folder / path).write_text(content)
    return diagnose(files_session([folder]).job())


def roots(found: Verdict) -> list[tuple[str, tuple[int, ...]]]:
    """Kinds and ranks of what is told as a cause."""
    return [(finding.kind, finding.ranks) for finding in found.findings if not finding.cause]
