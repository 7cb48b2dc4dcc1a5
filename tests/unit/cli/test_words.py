"""The command's name may be left out, and may come after shared options."""

from __future__ import annotations

import click
import pytest

from hangtop.cli.words import arrange


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("", "watch"),
        ("gpu[001-064,070]", "watch gpu[001-064,070]"),
        ("--read-only node1", "watch --read-only node1"),
        ("triage node1 --json", "triage node1 --json"),
        ("-F lab.conf triage node1", "triage -F lab.conf node1"),
        ("--job K=V --read-only triage node1", "triage --job K=V --read-only node1"),
        ("-F triage node1", "watch -F triage node1"),
        ("--ssh-config=lab.conf triage", "triage --ssh-config=lab.conf"),
        ("watch triage", "watch triage"),
        ("node1 triage", "watch node1 triage"),
        ("-- triage", "watch -- triage"),
        ("--theme triage node1", "watch --theme triage node1"),
        ("--help", "--help"),
        ("--version", "--version"),
    ],
)
def test_arrange(typed: str, meant: str) -> None:
    assert arrange(typed.split()) == meant.split()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("triagee", "hangtop triage?"),
        ("analyse /tmp/logs", "hangtop analyze?"),
        ("-F lab.conf replays", "hangtop replay?"),
        ("help", "hangtop --help?"),
        ("doctor", "hangtop preflight?"),
    ],
)
def test_a_slip_of_the_finger_is_no_node(typed: str, meant: str) -> None:
    with pytest.raises(click.UsageError, match="did you mean") as caught:
        arrange(typed.split())
    assert meant in caught.value.message


@pytest.mark.parametrize("typed", ["gpu17", "login", "host.example", "watcher1", "help node1", "watch triagee", "node"])
def test_names_of_nodes_are_taken_for_nodes(typed: str) -> None:
    assert arrange(typed.split())[0] == "watch"
