"""The README's commands, as a reader would copy them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    """Every command line of the README's shell blocks, without its comment."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = [line for block in _BLOCK.findall(text) for line in block.splitlines()]
    return [line.partition("  #")[0].strip() for line in lines if line.strip()]
