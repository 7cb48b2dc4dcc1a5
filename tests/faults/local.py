"""The machine that hangtop runs on: full disks, damaged recordings and configuration, a demo that is ended."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.fault import Family, Outcome
from tests.faults.running import MAIN, OnScreen, run
from tests.faults.scene import Scene

fault = Family("local")

FULL = 'mkdir -p {0} && mount -t tmpfs -o size=32k none {0} && exec "$@"'


def _on_full_disk(folder: Path) -> tuple[str, ...]:
    """Words before a command for which this folder is a disk of 32 KB."""
    return ("unshare", "-m", "sh", "-c", FULL.format(folder), "sh")


@fault("disk full under `record`", "No space left on device: .* cannot be written any more")
def full_record(scene: Scene) -> Outcome:
    """It can do nothing more: it ends, with one line."""
    before = scene.before()
    folder = scene.path(".full")
    words = ["record", str(folder / "a.htr"), "--batch", "--interval", "0.1", "--for", "60", *scene.reach]
    done = run(words, inside=_on_full_disk(folder))
    wrong = done.shortcomings() + [f"status {done.status}"] * (done.status != 2)
    return Outcome(
        _line(done.said, "cannot be written"), done.seconds, 0.0, left=scene.left(before), disturbed=tuple(wrong)
    )


@fault("disk full under `watch --record`", "recording ended: No space left on device")
def full_watch(scene: Scene) -> Outcome:
    """The recording ends, with a word; the screen goes on."""
    before = scene.before()
    folder = scene.path(".full")
    inside = _on_full_disk(folder)
    with OnScreen(folder / "a.htr", ["--interval", "0.1", *scene.reach], inside=inside) as watch:
        watch.terminal.resize(250, 50)
        watch.terminal.wait_for("3 ranks", 30.0)
        watch.usage.begin()
        began = time.monotonic()
        shown = watch.terminal.wait_for("recording ended", 60.0)
        after = time.monotonic() - began
        slowest = watch.key()
        watch.terminal.wait_for("3 ranks", 10.0)
        watch.quit()
        return Outcome(
            _line(shown, "recording ended"), after, 0.0, watch.usage.grown, key=slowest, left=scene.left(before)
        )


def _line(text: str, pattern: str) -> str:
    found = next((line for line in text.splitlines() if re.search(pattern, line)), text[-300:])
    return " ".join(found.split())[:240]


def _damaged(whole: bytes) -> Iterator[tuple[str, bytes]]:
    """Ways in which a recording may be damaged: a name, and its bytes."""
    for part in (1, 2, 10, 50, 90, 99):
        yield f"cut at {part} %", whole[: len(whole) * part // 100]
    yield "empty", b""
    yield "its magic alone", whole[:20]
    yield "another's magic", b"PK\x03\x04" + whole
    yield "a header that claims 4 GB", whole[:20] + b"\xff" * 24 + whole[44:]
    for number in range(6):
        bytes_ = bytearray(whole)
        for _ in range(1 + number * 20):
            bytes_[random.randrange(20, len(bytes_))] ^= 1 << random.randrange(8)
        yield f"{1 + number * 20} bits turned", bytes(bytes_)
    yield "a part twice", whole[: len(whole) // 2] + whole[len(whole) // 3 :]


@fault("recordings damaged and cut, in `replay`", "17 of 17 told of")
def damaged_recordings(scene: Scene) -> Outcome:
    """What came before the damage is judged; the rest is a line."""
    with scene.watch() as watch:
        time.sleep(3.0)
        watch.end()
    whole = watch.file.read_bytes()
    told, wrong, most, asked = 0, [], 0.0, time.monotonic()
    for name, data in _damaged(whole):
        file = scene.path(".htr")
        file.write_bytes(data)
        done = run(["replay", "--text", str(file)])
        most = max(most, done.memory)
        said: object = re.search("cut off|damaged|holds nothing|no hangtop recording", done.said)
        ended = done.status in (0, 1, 2, 3)
        said = said or "turned" in name  # a bit of a header's times, or of none that is read, tells nobody
        told += bool(said and ended)
        wrong += [f"{name}: {what}" for what in done.shortcomings()]
        if not (said and ended):
            wrong.append(f"{name}: status {done.status}: {done.said[-300:]}")
    return Outcome(
        f"{told} of {len(list(_damaged(whole)))} told of",
        time.monotonic() - asked,
        0.0,
        max(0.0, most - 120),
        disturbed=tuple(wrong),
    )


CONFIGURATIONS = {
    "no TOML": b"[[[ not toml",
    "random bytes": bytes(range(256)) * 20,
    "another type": b"interval = 'soon'\n",
    "out of range": b"interval = -1\npatience = 1e99\n",
    "an unknown option": b"intervall = 1\n",
    "a key that is none": b"[keys]\nquit = 5\n",
    "an option that is a table": b"[interval]\na = 1\n",
    "nested deep": b"a = " + b"[" * 100_000,
    "a number without end": b"interval = " + b"9" * 100_000 + b"\n",
    "escape codes": b"'\\u001b[31m\\u001b]0;t\\u0007' = 1\n",
}


@fault("damaged configuration", r"^11 of 11 refused in a line")
def damaged_configuration(scene: Scene) -> Outcome:
    """Refused with one line that names the file, and exit code 2."""
    wrong, refused, began = [], 0, time.monotonic()
    files = {name: scene.path(".toml") for name in CONFIGURATIONS}
    for name, file in files.items():
        file.write_bytes(CONFIGURATIONS[name])
    folder = scene.path(".toml")
    folder.mkdir()
    for name, file in {**files, "a folder": folder}.items():
        done = run(["triage", "--config", str(file), "--watch", "1", *scene.reach, "--batch"])
        lines = [line for line in done.said.splitlines() if line.strip()]
        if done.status == 2 and len(lines) <= 2 and str(file) in done.said.replace("\n", ""):
            refused += 1
        else:
            wrong.append(f"{name}: status {done.status}: {done.said[-300:]}")
        wrong += [f"{name}: {what}" for what in done.shortcomings()]
    return Outcome(
        f"{refused} of {len(files) + 1} refused in a line", time.monotonic() - began, 0.0, disturbed=tuple(wrong)
    )


def _demo(scene: Scene, number: signal.Signals) -> Outcome:
    temporary = scene.path(".tmp")
    temporary.mkdir()
    demo = subprocess.Popen(
        [*MAIN, "demo", "--headless", "--nodes", "1", "--ranks", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert demo.stdout is not None
    assert "hangtop watch" in demo.stdout.readline()
    time.sleep(2.0)
    demo.send_signal(number)
    began = time.monotonic()
    status = demo.wait(20)
    demo.stdout.close()
    while (left := _of_demo(temporary)) and time.monotonic() < began + 12:
        time.sleep(0.1)
    gone = time.monotonic() - began
    return Outcome(f"status {status}, all gone in {gone:.1f} s", recovered=gone, left=tuple(left))


def _of_demo(temporary: Path) -> list[str]:
    """Folders of a demo, and processes that name one."""
    left = [str(path) for path in temporary.iterdir()]
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(temporary).encode() in (entry / "environ").read_bytes():
                left.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:100])
        except OSError:
            continue  # it has ended
    return left


@fault("SIGTERM to `demo`", "all gone")
def demo_ended(scene: Scene) -> Outcome:
    """Neither its folder nor a process of it stays."""
    return _demo(scene, signal.SIGTERM)


@fault("SIGHUP to `demo`", "all gone")
def demo_hung_up(scene: Scene) -> Outcome:
    """A terminal that is closed."""
    return _demo(scene, signal.SIGHUP)


@fault("kill -9 of `demo`", "all gone")
def demo_killed(scene: Scene) -> Outcome:
    """What it started sees that it is gone."""
    return _demo(scene, signal.SIGKILL)
