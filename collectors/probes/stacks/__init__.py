"""Stacks of ranks, asked for by a key, a command or the session itself."""

from __future__ import annotations

from collectors.node.stacks.stackdump import DumpRequest
from collectors.probes.stacks.dump import dump
from collectors.probes.stacks.dumper import prepare

__all__ = ["DumpRequest", "dump", "prepare"]
