"""What is read of output that somebody saved."""

from __future__ import annotations

from pathlib import Path

from hangtop.diagnosis.finding import Verdict
from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import files_session


def verdict(folder: Path, text: str) -> Verdict:
    """The verdict on a file with this text."""
    path = folder / "out.txt"
    path.write_text(text + "\n")
    return diagnose(files_session([path]).job())
