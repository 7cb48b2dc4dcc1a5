"""Steps in logs, whoever logs them; and what looks like steps but is none."""

from __future__ import annotations

import time

import pytest

from collectors.node.logs.steps import LogSteps, counted
from collectors.samples.logs import StepCount

NOW = 1_000_000_000.0

LOGGERS = {
    "plain": "step {n} loss 0.31 (0.52 s)",
    "colon": "[2026-11-22 10:00:00,123][INFO] - Step: {n} | lr 1e-4",
    "equals": "global_step={n}, skipped=0, lr=[0.0001], mom=[(0.9, 0.95)]",
    "coloured": "\x1b[31mstep: \x1b[32m{n:2d}  \x1b[33mloss: 2.9\x1b[0m",
    "fraction": "Epoch: [0][ {n}/5005]\tTime 0.4 (0.5)\tLoss 6.9",
    "epoch and batch": "Epoch 3, batch {n}",
    "json": '{{"loss": 0.3, "step": {n}, "lr": 1e-05, "epoch": 0.4}}',
    "dict": "{{'loss': 0.3, 'learning_rate': 1e-05, 'epoch': 1.{n}}}",
    "thousands": "completed step: 1,{n:03d}, seconds: 0.41",
}
BARS = {
    "bar": "Epoch 0:  45%|████▌     | {n}/1000 [00:10<00:12, 45.10it/s, v_num=0]",
    "bar without an end": "{n}it [00:10, 45.1it/s]",
    "bar of thousands": "shards:  45%|████▌     | {n}.5k/9.99k [00:10<00:12]",
}
NO_STEPS = {
    "heartbeat": "heartbeat {n}",
    "waiting": "Waiting for rank 3 ... {n}/600",
    "uptime": "uptime {n} s",
    "clock": "2026-11-22 10:{n:02d}:00 INFO running",
    "watchdog": "watchdog: iteration {n}, no progress",
    "seconds": "step time: {n} s",
    "same step": "step 7, waited {n} s",
    "seconds since 1970": "epoch: 17322{n}000",
    "rates": "tokens/s {n} steps/s: {n}",
}


def read(log: LogSteps, text: str, *, live: bool = True, now: float = NOW) -> None:
    log.take(text.encode(), now, now, live=live)


def told(log: LogSteps) -> StepCount:
    count = log.best("/x.log", 1)
    assert count is not None
    return count


@pytest.mark.parametrize("line", LOGGERS.values(), ids=LOGGERS)
def test_steps_are_read_whoever_logs_them(line: str) -> None:
    log = LogSteps()
    read(log, line.format(n=10) + "\n", live=False)
    for n in range(11, 15):
        read(log, "some other words\n" + line.format(n=n) + "\n")
    assert told(log).grown == 4
    assert str(told(log).value).endswith(("14.0", "1.14"))


@pytest.mark.parametrize("line", BARS.values(), ids=BARS)
def test_bars_are_read_though_their_lines_never_end(line: str) -> None:
    log = LogSteps()
    for n in range(10, 15):
        read(log, "\r" + line.format(n=n))
    assert (told(log).name, told(log).grown) == ("bar", 4)


@pytest.mark.parametrize("line", NO_STEPS.values(), ids=NO_STEPS)
def test_signs_of_life_are_no_steps(line: str) -> None:
    log = LogSteps()
    read(log, line.format(n=10) + "\n", live=False)
    for n in range(11, 30):
        read(log, line.format(n=n) + "\n")
    count = log.best("/x.log", 1)
    assert count is None or count.grown == 0


@pytest.mark.parametrize("between", [" ", "T"])
def test_how_long_a_step_took_of_late_is_told_by_the_times_of_the_lines_and_their_numbers(between: str) -> None:
    log = LogSteps()
    zone = time.strftime("%z", time.localtime(NOW))
    at = [0, 10, 20, 50, 60]
    lines = "".join(
        time.strftime(f"%Y-%m-%d{between}%H:%M:%S{zone} step {10 * n}\n", time.localtime(NOW + seconds))
        for n, seconds in enumerate(at)
    )
    read(log, lines, live=False, now=NOW + 60)
    assert (told(log).every, told(log).longest) == (10.0, 3.0)
    log = LogSteps()
    read(log, "step 1\nstep 2\nstep 3\n", live=False)
    assert told(log).longest is None


@pytest.mark.parametrize(
    ("pieces", "grown", "name", "value"),
    [
        ([f"step {n}\n" for n in (10, 11, 12, 0, 1, 2, 3)], 5, "step", 3.0),
        ([f"step {n}\n" for n in (5, 6, 5, 6, 5, 6, 5)], 1, "step", 6.0),
        ([f"epoch {n} done\nstep {100 * n}\nsave:  45%|████| {n}/9 [00:10<00:12]\n" for n in range(3)],
         6, "step", 200.0),
        (["step 1198\nstep 1199\n", "step 12", "00 loss 0.3\n"], 2, "step", 1200.0),
    ],
    ids=["begins anew", "to and fro", "a step before an epoch and a bar", "a line in two pieces"],
)  # fmt: skip
def test_what_grows(pieces: list[str], grown: int, name: str, value: float | None) -> None:
    log = LogSteps()
    for piece in pieces:
        read(log, piece)
    assert (told(log).name, told(log).value, told(log).grown) == (name, value, grown)


@pytest.mark.parametrize(
    "text", ["step" + " " * 50_000, "[" * 50_000, "1/" * 50_000, "step [" * 20_000, "1,111" * 20_000]
)
def test_no_line_takes_long(text: str) -> None:
    began = time.process_time()
    counted(text.lower())
    assert time.process_time() - began < 1.0
