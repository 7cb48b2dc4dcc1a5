"""The words of the command line before click sees them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hangtop.cli.registry import COMMANDS, DEFAULT

LIKE = 0.8
"""How much a word must be like a command's name to be taken for a slip of the finger: ``triagee``, ``analyse``."""
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
    if at is not None:
        _refuse_slip(words[at])
    return [DEFAULT, *words]


def _refuse_slip(word: str) -> None:
    """Raise :class:`click.UsageError` for a word that was most likely meant for a command, and is the name of none."""
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, 1, LIKE) if word.isalpha() else []
    if near:
        raise click.UsageError(
            f"no command is called {word}; did you mean hangtop {near[0]}? "
            f"A node of that name: hangtop {DEFAULT} {word}"
        )


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
    from hangtop.cli.options import CONNECTION, SCREEN_OPTIONS

    probe = click.Command("probe")
    for decorate in (*CONNECTION, *SCREEN_OPTIONS):
        decorate(probe)
    return {
        name for param in probe.params if isinstance(param, click.Option) and not param.is_flag for name in param.opts
    }
