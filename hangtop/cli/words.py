"""The words of the command line before click sees them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hangtop.cli.registry import COMMANDS, DEFAULT

ALONE = {"--help", "-h", "--version"}
"""Options of ``hangtop`` itself."""


def arrange(words: Sequence[str]) -> list[str]:
    """Put the command's name in front, adding the default one when the words name none.

    Options may come before the command (``hangtop -F lab.conf triage node1``); the first word that is neither an option
    nor its value is the command, if it is the name of one. A node that has a command's name is reached with the
    command before it: ``hangtop watch demo``.
    """
    first = words[0] if words else ""
    if first in COMMANDS or first in ALONE:
        return list(words)
    at = first_plain(words)
    if at is not None and words[at] in COMMANDS:
        return [words[at], *words[:at], *words[at + 1 :]]
    return [DEFAULT, *words]


def first_plain(words: Sequence[str]) -> int | None:
    """Index of the first word that is neither an option nor its value; None when there is none."""
    taking = _options_with_value()
    skip = False
    for index, word in enumerate(words):
        if skip:
            skip = False
        elif word == "--":
            return None
        elif word.startswith("-") and word != "-":
            skip = word in taking
        else:
            return index
    return None


def _options_with_value() -> set[str]:
    """Names of the shared options that take the next word."""
    from hangtop.cli.common import CONNECTION, SCREEN

    probe = click.Command("probe")
    for decorate in (*CONNECTION, *SCREEN):
        decorate(probe)
    return {
        name for param in probe.params if isinstance(param, click.Option) and not param.is_flag for name in param.opts
    }
