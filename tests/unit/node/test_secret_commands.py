"""Secrets that only the manual of their program tells from a port or a folder, and command lines that have none."""

import shlex
from pathlib import Path

import pytest

from collectors.node import redact

SECRET = "hunter2butlonger"
FIXTURES = Path(__file__).parents[2] / "fixtures" / "secrets"


def lines(name: str) -> list[str]:
    """The command lines of a fixture."""
    return [line for line in (FIXTURES / name).read_text().splitlines() if line and not line.startswith("#")]


def test_there_is_something_to_try() -> None:
    assert len(lines("secret.txt")) > 100
    assert len(lines("harmless.txt")) > 100


@pytest.mark.parametrize("line", lines("secret.txt"))
def test_no_secret_is_shown_however_its_command_was_given(line: str) -> None:
    line = line.replace("@@", SECRET)
    given = [["bash", "-c", line], ["bash", "-lc", f"cd /x && {line} && python train.py --lr 1"]]
    if "|" not in line and "<<<" not in line:  # what only a shell does
        given.append(shlex.split(line))
    shown = [redact.command(words) for words in given]
    assert [text for text in shown if SECRET in text] == []
    assert shown[1].endswith("python train.py --lr 1"), "what comes after the command stays"


@pytest.mark.parametrize("line", lines("harmless.txt"))
def test_what_holds_no_secret_stays_whole(line: str) -> None:
    words = shlex.split(line)
    assert redact.command(words) == " ".join(words)
    assert redact.command(["bash", "-c", line]) == f"bash -c {line}"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["curl", "-u", "me:x", "https://h/"], "curl -u me:<redacted> https://h/"),
        (["docker", "run", "-p", "80:80", "i"], "docker run -p 80:80 i"),
        (["docker", "login", "-u", "me", "-p", "x", "r"], "docker login -u me -p <redacted> r"),
        (["sh", "-c", "sshpass -p 'a b' ssh -p 22 h"], "sh -c sshpass -p <redacted> ssh -p 22 h"),
        (["wandb", "login", "--host", "https://w.lab", "x"], "wandb login --host https://w.lab <redacted>"),
    ],
)  # fmt: skip
def test_only_the_secret_goes(words: list[str], shown: str) -> None:
    assert redact.command(words) == shown
