"""The page that a process shares: what it says, that it costs and breaks nothing, and what a fork does to it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import hangtop.inside
from collectors.samples import page as layout
from hangtop.inside import hooks
from hangtop.inside.steps import telling


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    telling.by_hand = False
    telling.problems.clear()
    did = hangtop.inside.start(tracer=False, recorder=False, automatic=False, quiet=True)
    yield did
    hangtop.inside.stop()


def page_bytes() -> bytes:
    """The page as another process finds it: by the name among the open files."""
    path = page_path()
    return Path(path).read_bytes() if path else b""


def page_path() -> str:
    """This process's own: another test may hold that of a process which it watched."""
    own = struct.pack("=8sqqq", layout.MAGIC, layout.VERSION, layout.SIZE, os.getpid())
    return memfd(layout.NAME, own)


def memfd(name: str, begin: bytes = b"") -> str:
    for link in Path("/proc/self/fd").iterdir():
        named = link.is_symlink() and str(link.readlink()).startswith(f"/memfd:{name} ")
        if named and link.read_bytes().startswith(begin):
            return str(link)
    return ""


def word(data: bytes, place: int) -> int:
    return int(struct.unpack_from("=q", data, 8 * place)[0])


def moment(data: bytes, place: int) -> float:
    return float(struct.unpack_from("=d", data, 8 * place)[0])


def test_says_who_it_is_and_where(started: list[str]) -> None:
    hangtop.inside.step(41)
    hangtop.inside.phase("data")
    data = page_bytes()
    assert len(data) == layout.SIZE
    assert data[:8] == layout.MAGIC
    places = (layout.VERSION_WORD, layout.PID, layout.STEP)
    assert [word(data, place) for place in places] == [layout.VERSION, os.getpid(), 41]
    assert layout.PHASE_NAMES[word(data, layout.PHASE)] == "data"
    assert 0.0 < moment(data, layout.STEP_AT) <= moment(data, layout.PHASE_AT)


def test_a_phase_goes_back_to_the_one_before(started: list[str]) -> None:
    hangtop.inside.phase("backward")
    with hangtop.inside.phase("checkpoint"):
        assert word(page_bytes(), layout.PHASE) == layout.PHASE_NAMES.index("checkpoint")
    assert word(page_bytes(), layout.PHASE) == layout.PHASE_NAMES.index("backward")


@pytest.mark.parametrize("nonsense", ["seven", 1 << 80, None, 2.5, object()])
def test_nonsense_stays_inside_and_is_said(
    started: list[str], nonsense: object, capsys: pytest.CaptureFixture[str]
) -> None:
    hangtop.inside.step(7)
    hangtop.inside.step(nonsense)  # type: ignore[arg-type]
    with hangtop.inside.phase(nonsense):  # type: ignore[arg-type]
        pass
    assert capsys.readouterr().err.splitlines() == [f"hangtop.inside: {problem}" for problem in telling.problems] != []
    beyond = nonsense == 1 << 80
    assert word(page_bytes(), layout.STEP) in ({0} if beyond else {7, 8})
    assert (moment(page_bytes(), layout.STEP_AT) == 0.0) is beyond, "a pair without a time is none"
    hangtop.inside.step(9)
    assert word(page_bytes(), layout.STEP) == 9
    assert moment(page_bytes(), layout.STEP_AT) > 0.0


def test_a_forked_child_does_not_write_to_it(started: list[str]) -> None:
    hangtop.inside.step(3)
    child = os.fork()
    if not child:
        hangtop.inside.step(99)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert word(page_bytes(), layout.STEP) == 3


@pytest.mark.torch
def test_an_optimizer_counts_and_a_model_tells_the_phases(started: list[str]) -> None:
    torch = pytest.importorskip("torch")

    def now() -> tuple[int, str]:
        data = page_bytes()
        return word(data, layout.STEP), layout.PHASE_NAMES[word(data, layout.PHASE)]

    assert "counted by the optimizer's own hook" in hooks.count_steps()
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    optimizer, other = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))

    def train() -> None:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        other.step()

    train()
    assert now() == (1, ""), "without a model nobody knows which part of the step comes next"
    hangtop.inside.follow(model)
    within: list[tuple[int, str]] = []
    spy = model[0].register_forward_hook(lambda *_: within.append(now()))
    loss = model(torch.ones(1, 2)).sum()
    spy.remove()
    assert (within, now()) == ([(1, "forward")], (1, "backward"))
    loss.backward()
    optimizer.step()
    assert now() == (2, "data")
    model.eval()(torch.ones(1, 2))
    assert now() == (2, "evaluation")
    model.train()
    hangtop.inside.step(100)
    train()
    assert now()[0] == 100, "numbers that the job gives count alone"
    hangtop.inside.stop()
    assert len(model._forward_hooks) == len(model._forward_pre_hooks) == 0, "hooks are taken away at the end"
