"""Every command's help: own options first, each with its meaning, exit codes told, on one screen."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from hangtop.cli.groups import COMMANDS, arrange
from hangtop.cli.main import group

ROOT = click.Context(group)


def commands_of(one: click.Group, words: str = "") -> Iterator[tuple[str, click.Command]]:
    """All commands, those of groups too, by the words that call them."""
    for name in one.list_commands(ROOT):
        command = one.get_command(ROOT, name)
        assert command is not None
        yield f"{words}{name}", command
        if isinstance(command, click.Group):
            yield from commands_of(command, f"{words}{name} ")


EVERY = dict(commands_of(group))
SINGLE = [words for words, command in EVERY.items() if not isinstance(command, click.Group)]


def help_of(words: str) -> str:
    context = click.Context(EVERY[words], info_name=f"hangtop {words}", max_content_width=110)
    return EVERY[words].get_help(context)


@pytest.mark.parametrize("words", EVERY)
def test_every_option_says_what_it_is_and_what_it_takes(words: str) -> None:
    told = help_of(words)
    assert not [sign for sign in ("RANGE", " TEXT", "INTEGER", "FLOAT", "DIRECTORY", "FILENAME") if sign in told]
    options = [param for param in EVERY[words].params if isinstance(param, click.Option) and not param.hidden]
    assert [option.opts for option in options if not option.help] == []
    assert len(told.splitlines()) <= 60


@pytest.mark.parametrize("words", SINGLE)
def test_own_options_come_first_and_exit_codes_are_told(words: str) -> None:
    told = help_of(words)
    own = told.partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert "--help" in own.splitlines()[-1]
    assert "--ssh-config" not in own
    assert "--theme" not in own
    assert words in {"watch", "demo"} or "xit code" in " ".join(told.split())


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("", "watch"),
        ("gpu[001-064,070]", "watch gpu[001-064,070]"),
        ("--read-only node1", "watch --read-only node1"),
        ("triage node1 --json", "triage node1 --json"),
        ("watch triage", "watch triage"),
    ],
)
def test_without_a_command_the_words_are_those_of_watch(typed: str, meant: str) -> None:
    assert arrange(typed.split(), COMMANDS, "watch", "hangtop") == meant.split()


def test_a_command_behind_other_words_is_no_node() -> None:
    with pytest.raises(click.UsageError, match="the command comes first: hangtop triage; a node of that name"):
        arrange("-F lab.conf triage node1".split(), COMMANDS, "watch", "hangtop")


def test_the_environment_sets_what_the_command_line_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANGTOP_PATIENCE", "7")
    monkeypatch.setenv("HANGTOP_READ_ONLY", "1")
    monkeypatch.setenv("HANGTOP_JOB", "A=1")
    params = EVERY["watch"].make_context("watch", ["--job", "B=2"]).params
    assert (params["patience"], params["read_only"], params["job"]) == (7.0, True, ("B", "2"))


def test_a_misspelt_command_is_no_node() -> None:
    with pytest.raises(click.UsageError, match="is hangtop triage meant"):
        arrange(["triag"], COMMANDS, "watch", "hangtop")
    assert arrange(["trinity"], COMMANDS, "watch", "hangtop") == ["watch", "trinity"]
