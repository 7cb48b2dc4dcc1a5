"""Steps and phases by torch's own hooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import hangtop.inside
from collectors.samples.page import PHASE_NAMES
from hangtop.inside import hooks, page
from hangtop.inside.hooks import Hooked
from hangtop.inside.page import Page
from hangtop.inside.steps import telling


class Told:
    """What was told, in order: phases, and steps as numbers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.words: list[str | int] = []

        def put_pair(view: memoryview, place: int, number: int, at: float) -> None:
            assert at > 0.0
            self.words.append(number if place == page.STEP else PHASE_NAMES[number])
            page.put_pair(view, place, number, at)

        def put_both(view: memoryview, place: int, step: int, at: float, phase: int, begun: float) -> None:
            assert (place, at) == (page.STEP, begun), "the time is read once"
            self.words += [step, PHASE_NAMES[phase]]
            page.put_both(view, place, step, at, phase, begun)

        monkeypatch.setattr(hooks, "put_pair", put_pair)
        monkeypatch.setattr(hooks, "put_both", put_both)
        step, phase = Page.step, Page.phase

        def on_step(own: Page, number: int) -> None:
            self.words.append(number)
            step(own, number)

        def on_phase(own: Page, number: int) -> Any:
            self.words.append(PHASE_NAMES[number])
            return phase(own, number)

        monkeypatch.setattr(Page, "step", on_step)
        monkeypatch.setattr(Page, "phase", on_phase)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    monkeypatch.setattr(hooks, "hooked", Hooked())
    telling.by_hand = False
    hangtop.inside.start(tracer=False, recorder=False, automatic=False, quiet=True)
    assert telling.page is not None
    yield Told(monkeypatch)
    hangtop.inside.stop()


def test_an_optimizer_counts_and_a_model_tells_the_phases(told: Told) -> None:
    torch = pytest.importorskip("torch")
    said = hooks.count_steps()
    assert "counted by the optimizer's own hook" in said
    model = torch.nn.Linear(2, 2)
    optimizer, other = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))

    def train() -> None:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        other.step()

    train()
    assert told.words == ["optimizer", 1, ""], "without a model nobody knows which part of the step comes next"
    told.words.clear()
    hangtop.inside.follow(model)
    train()
    assert told.words == ["forward", "backward", "optimizer", 2, "data"]
    told.words.clear()
    model.eval()
    model(torch.ones(1, 2))
    assert told.words == ["evaluation"]
    told.words.clear()
    model.train()
    hangtop.inside.step(100)
    train()
    assert [word for word in told.words if isinstance(word, int)] == [100], "numbers that the job gives count alone"
