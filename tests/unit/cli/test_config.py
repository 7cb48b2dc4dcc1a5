"""The configuration file: every option, the command line wins, and mistakes name file and key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hangtop.cli.main import main
from hangtop.cli.options import ScreenChoices
from hangtop.session.options import SessionOptions

Run = Callable[..., tuple[SessionOptions, ScreenChoices]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs ``hangtop watch`` with this file and these words, and returns what the screen would be opened with."""
    import hangtop.cli.screen

    path = tmp_path / "config.toml"
    seen: list[tuple[Any, Any]] = []

    def watch(options: SessionOptions, choices: ScreenChoices, **_: object) -> None:
        seen.append((options, choices))

    monkeypatch.setattr(hangtop.cli.screen, "watch", watch)

    def start(text: str, *words: str) -> tuple[SessionOptions, ScreenChoices]:
        path.write_text(text)
        with pytest.raises(SystemExit) as ended:
            main([*words, "--config", str(path)])
        assert ended.value.code == 0
        found: tuple[SessionOptions, ScreenChoices] = seen[-1]
        return found

    return start


def test_every_option_can_be_set(run: Run) -> None:
    options, choices = run(
        """
        ssh-config = "~/lab.conf"
        hostfile = "hosts"
        via = "tsh ssh %h"
        namespace = "lab"
        selector = "app=x"
        container = "main"
        slurm = "12"
        job = "SLURM_JOB_ID=12"
        log = ["/a/*.log", "/b"]
        interval = 2
        patience = 90.5
        read-only = true
        batch = true
        python = "/opt/python"
        py-spy = "/opt/py-spy"
        sudo = true
        theme = "x"
        no-color = true
        ascii = true
        refresh = 0.5
        report-folder = "reports"
        bell = false
        [keys]
        quit = "q"
        """
    )
    assert options == SessionOptions(
        targets=(),
        ssh_config=Path.home() / "lab.conf",
        hostfile=Path("hosts"),
        slurm="12",
        via="tsh ssh %h",
        namespace="lab",
        selector="app=x",
        container="main",
        job=("SLURM_JOB_ID", "12"),
        logs=("/a/*.log", "/b"),
        interval=2.0,
        patience=90.5,
        read_only=True,
        batch=True,
        python="/opt/python",
        py_spy="/opt/py-spy",
        sudo=True,
    )
    assert choices == ScreenChoices("x", True, True, 0.5, Path("reports"), False, {"quit": "q"})


def test_the_command_line_wins(run: Run) -> None:
    options, _ = run("interval = 2\npatience = 90", "node1", "--interval", "0.5")
    assert (options.targets, options.interval, options.patience) == (("node1",), 0.5, 90.0)


def test_a_table_is_for_its_command_alone(run: Run) -> None:
    options, _ = run("interval = 2\n[watch]\ninterval = 3\n[triage]\ninterval = 4\nwatch = 9")
    assert options.interval == 3.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour = true", "colour: no such option"),
        ("read_only = true", "read_only: no such option (did you mean read-only?)"),
        ("read-only = 1", "read-only: wants true or false, not 1"),
        ("interval = '1'", "interval: wants a number, not '1'"),
        ("interval = 0", "interval: 0.0 is not in the range"),
        ("job = 'x'", "job: 'x' is not KEY=VALUE"),
        ("triage = 1", "triage: is a command, and wants a table"),
        ("[triage]\nwacht = 1", "triage.wacht: no such option of hangtop triage (did you mean watch?)"),
        ("[triage]\nwatch = 'x'", "triage.watch: wants a number, not 'x'"),
        ("keys = 1", 'keys: wants a table of action = "key"'),
        ("config = 'x'", "config: no such option"),
        ("= 1", "not TOML"),
        ("a = " + "[" * 100_000, "too deep in one another"),
        ("interval = " + "9" * 100_000, "not TOML: Exceeds the limit"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_key(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SystemExit) as ended:
        main(["--config", str(path), "node1"])
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"hangtop: {path}: ")
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_the_users_own_file_is_read_unasked(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hangtop.cli import config

    own = tmp_path / "own.toml"
    own.write_text("nonsense = 1")
    monkeypatch.setattr(config, "default_path", lambda: own)
    with pytest.raises(SystemExit) as ended:
        main(["node1"])
    assert ended.value.code == 2
    own.unlink()
    with pytest.raises(SystemExit) as ended:
        main(["node1"])
    assert ended.value.code == 0
