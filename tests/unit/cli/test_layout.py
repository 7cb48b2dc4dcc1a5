"""Helps: what a command alone can be told comes first, every option says what it is, and none is listed for nothing."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import click
import pytest

from hangtop.cli.layout import NODES, SCREEN
from hangtop.cli.registry import COMMANDS


def every_command() -> Iterator[tuple[str, click.Command]]:
    """All commands, those of groups too, by the words that call them."""
    for name, entry in COMMANDS.items():
        module, _, attribute = entry.where.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", one) for inner, one in command.commands.items())
        yield name, command


EVERY = dict(every_command())


def help_of(words: str) -> str:
    return EVERY[words].get_help(click.Context(EVERY[words], info_name=f"hangtop {words}", max_content_width=110))


@pytest.mark.parametrize("words", EVERY)
def test_every_option_says_what_it_is_and_what_it_takes(words: str) -> None:
    told = help_of(words)
    assert not [
        sign for sign in ("RANGE", " TEXT", "INTEGER", "FLOAT", "DIRECTORY", "...  ", "FILENAME") if sign in told
    ]
    options = [param for param in EVERY[words].params if isinstance(param, click.Option) and not param.hidden]
    assert [option.opts for option in options if not option.help] == []


@pytest.mark.parametrize("words", [words for words, one in EVERY.items() if not isinstance(one, click.Group)])
def test_what_a_command_alone_can_be_told_comes_first(words: str) -> None:
    told = help_of(words)
    own = told.partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert own.rstrip().endswith("Show this message and exit.") or "--help" in own
    assert "--ssh-config" not in own
    assert "--theme" not in own
    assert ("--ssh-config" in told) == (NODES in told)
    assert ("--theme" in told) == (f"\n{SCREEN}:" in told)


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        ("preflight", "--patience --interval --py-spy"),
        ("probe path", "--patience --read-only"),
        ("stacks", "--patience"),
    ],
)
def test_what_a_command_makes_no_use_of_is_taken_and_not_listed(words: str, unused: str) -> None:
    command, given = EVERY[words], {"--patience": "5", "--interval": "2", "--py-spy": "/x/py-spy"}
    for option in unused.split():
        assert option not in help_of(words)
        taken = command.make_context(words, [option, *([given[option]] if option in given else [])])
        assert taken.params


def test_what_every_command_has_stands_last_among_its_own() -> None:
    own = help_of("triage").partition("Options:")[2].partition("Nodes,")[0]
    places = [own.index(option) for option in ("--watch", "--record", "--config", "--help")]
    assert places == sorted(places)


def test_the_patience_of_a_triage_is_told_as_it_is() -> None:
    told = " ".join(help_of("triage").partition("--patience S")[2].partition("--read-only")[0].split())
    assert "as many as --watch" in told
    assert "60" not in told
    assert "[default: 60.0" in " ".join(help_of("watch").split())


@pytest.mark.parametrize(("group", "default"), [("probe", "collectives"), ("witness", "list"), ("repair", "list")])
def test_a_group_says_that_nodes_alone_will_do(group: str, default: str) -> None:
    assert f"[{default}] [ARGS]... | COMMAND [ARGS]..." in help_of(group)


@pytest.mark.parametrize("words", [words for words, one in EVERY.items() if not isinstance(one, click.Group)])
def test_commands_that_answer_say_their_exit_codes(words: str) -> None:
    if words not in {"watch", "demo"}:
        assert "xit code" in " ".join(help_of(words).split())
