"""Stacks of ranks, asked for by a key, a command or the session itself."""

from __future__ import annotations

from collectors.probes.stacks.dump import DumpManner, dump, shown_command, warm
from collectors.probes.stacks.dumper import prepare

__all__ = ["DumpManner", "dump", "prepare", "shown_command", "warm"]
