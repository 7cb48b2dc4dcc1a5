"""Ranks as an option of a command."""

from __future__ import annotations

from typing import Any

import click

from hangtop.diagnosis.stacks.ranks import parse_ranks


class Ranks(click.ParamType[frozenset[int]]):
    """``3,7-9``."""

    name = "RANKS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[int]:
        """Unfold the ranges."""
        if isinstance(value, frozenset):
            return value
        try:
            return parse_ranks(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
