"""The command's name may be left out, and may come after shared options."""

from __future__ import annotations

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
