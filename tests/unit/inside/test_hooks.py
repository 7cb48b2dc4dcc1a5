"""Steps and phases by torch's own hooks, and by callbacks of frameworks that need not be installed for this."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import hangtop.inside
from collectors.samples.page import PHASE_NAMES
from hangtop.inside import hooks, page
from hangtop.inside.frameworks import lightning
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


def test_an_engine_of_deepspeed_evaluates_where_its_module_does(told: Told) -> None:
    torch = pytest.importorskip("torch")
    inner = torch.nn.Linear(2, 2)

    module: Any = torch.nn.Module

    class Engine(module):  # type: ignore[misc]  # torch is not followed
        """As deepspeed.runtime.engine has it (0.19): train() goes to the module alone."""

        def __init__(self) -> None:
            super().__init__()
            self.module = inner

        def train(self, mode: bool = True) -> Any:
            return self.module.train(mode)

        def forward(self, batch: Any) -> Any:
            return self.module(batch)

    Engine.__module__ = "deepspeed.runtime.engine"
    engine = Engine()
    hangtop.inside.follow(engine)
    engine(torch.ones(1, 2))
    engine.eval()
    engine(torch.ones(1, 2))
    assert told.words == ["forward", "backward", "evaluation"]


def test_hooks_are_taken_away_at_the_end(told: Told) -> None:
    torch = pytest.importorskip("torch")
    hooks.count_steps()
    model = torch.nn.Linear(2, 2)
    hangtop.inside.follow(model)
    hangtop.inside.stop()
    assert len(model._forward_hooks) == len(model._forward_pre_hooks) == 0
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert told.words == []


def test_something_that_cannot_be_followed_stays_inside(told: Told) -> None:
    telling.problems.clear()
    hangtop.inside.follow(object())
    assert "follow()" in telling.problems[0]


def framework(monkeypatch: pytest.MonkeyPatch, name: str, base: str) -> None:
    """Have a module of this name that has nothing but the class that callbacks are made from."""
    module = ModuleType(name)
    setattr(module, base, type(base, (), {}))
    monkeypatch.setitem(sys.modules, name, module)


def test_lightning(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    framework(monkeypatch, "lightning.pytorch", "Callback")
    callback = hangtop.inside.lightning_callback()
    trainer, model = SimpleNamespace(global_step=0), None
    callback.on_fit_start(trainer, model)
    for batch in range(2):
        callback.on_train_batch_start(trainer, model, None, batch)
        callback.on_before_backward(trainer, model, None)
        callback.on_before_optimizer_step(trainer, model, None)
        trainer.global_step += batch  # the first batch only accumulates gradients
        callback.on_train_batch_end(trainer, model, None, None, batch)
    callback.on_validation_start(trainer, model)
    callback.on_validation_end(trainer, model)
    once: list[Any] = ["forward", "backward", "optimizer"]
    assert told.words == [*once, 0, "data", *once, 1, "data", "evaluation", "data"]


def test_lightning_adds_one_only_where_start_was_called(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    framework(monkeypatch, "lightning.pytorch", "Callback")
    assert len(lightning.callbacks()) == 1
    hangtop.inside.stop()
    assert lightning.callbacks() == []


def test_transformers(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    framework(monkeypatch, "transformers", "TrainerCallback")
    callback = hangtop.inside.trainer_callback()
    state = SimpleNamespace(global_step=3)
    control = SimpleNamespace(should_evaluate=False, should_save=False)
    callback.on_train_begin(None, state, control)
    callback.on_step_begin(None, state, control)
    callback.on_pre_optimizer_step(None, state, control)
    callback.on_step_end(None, state, control)
    callback.on_prediction_step(None, state, control)
    callback.on_evaluate(None, state, control)
    assert told.words == ["data", "forward", "optimizer", 3, "data", "evaluation", "data"]


@pytest.mark.parametrize("at", ["on_step_end", "on_epoch_end"])
def test_transformers_evaluates_and_saves_between_two_steps(
    told: Told, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    framework(monkeypatch, "transformers", "TrainerCallback")
    callback = hangtop.inside.trainer_callback()
    state, control = SimpleNamespace(global_step=3), SimpleNamespace(should_evaluate=True, should_save=True)
    getattr(callback, at)(None, state, control)
    callback.on_evaluate(None, state, control)
    control.should_evaluate = False
    callback.on_save(None, state, control)
    getattr(callback, at)(None, state, control)
    callback.on_save(None, state, control)
    callback.on_epoch_begin(None, state, control)
    words = [word for word in told.words if word != 3]
    assert words == ["evaluation", "checkpoint", "data", "checkpoint", "data", "data"]


@pytest.mark.parametrize(
    ("package", "base", "make"),
    [
        ("lightning.pytorch", "Callback", hangtop.inside.lightning_callback),
        ("transformers", "TrainerCallback", hangtop.inside.trainer_callback),
    ],
)
def test_a_callback_goes_to_ranks_that_are_spawned(
    monkeypatch: pytest.MonkeyPatch, package: str, base: str, make: Callable[[], Any]
) -> None:
    framework(monkeypatch, package, base)
    callback = make()
    again = pickle.loads(pickle.dumps({"callbacks": [callback]}))["callbacks"][0]
    assert (type(again).__name__, again is callback) == (type(callback).__name__, False)


def test_the_entry_point_names_what_is_there() -> None:
    import tomllib
    from importlib import import_module
    from pathlib import Path

    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    entry = tomllib.loads(text)["project"]["entry-points"]["lightning.pytorch.callbacks_factory"]["hangtop"]
    module, _, name = entry.partition(":")
    assert getattr(import_module(module), name) is lightning.callbacks
