"""Makes the check that somebody at the screen asked for, at the end of the step that the question names.

The question lies on this process's page, where its own user and root alone can write it. All ranks are given the same
step, some way ahead, so that all make the check at the same point; one that saw the question too late makes none.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from hangtop.inside.checks.barrier import barrier
from hangtop.inside.checks.items import whole
from hangtop.inside.checks.meshes import check_mesh
from hangtop.inside.checks.placement import check_placement
from hangtop.inside.checks.same import check_same
from hangtop.inside.checks.speed import bandwidth, stragglers
from hangtop.inside.hooks import followed, hooked
from hangtop.inside.page import Page, PageQuestion
from hangtop.inside.results import CheckResult, Noted, publish


def consider(page: Page, step: int) -> None:
    """Answer the question on the page if this is its step."""
    question = page.question()
    if question is None or step < question.at_step:
        return
    page.take(question.number)
    if step > question.at_step:
        _refuse(question, "it was seen at step %d, too late for step %d" % (step, question.at_step))
        return
    _MAKE[question.check](question)


def _same(question: PageQuestion) -> None:
    model = followed()
    things: List[Any] = list(hooked.optimizers) if model is None else [model, *whole(hooked.optimizers, model)]
    if not things:
        _refuse(question, "no model and no optimizer is known here: call hangtop.inside.follow(model, optimizer)")
        return
    check_same(*things, group=hooked.group, seconds=question.deadline, number=question.number)


def _placement(question: PageQuestion) -> None:
    model = followed()
    if model is None:
        _refuse(question, "no model is known here: call hangtop.inside.follow(model)")
        return
    check_placement(model, seconds=question.deadline, number=question.number)


def _mesh(question: PageQuestion) -> None:
    meshes = [getattr(parameter, "device_mesh", None) for parameter in getattr(followed(), "parameters", list)()]
    found = next((mesh for mesh in meshes if mesh is not None), None)
    if found is None:
        _refuse(question, "no parameter of a model that is known here lies on a mesh")
        return
    check_mesh(found, seconds=question.deadline, number=question.number)


def _refuse(question: PageQuestion, why: str) -> None:
    summary = "check %s was not made: %s" % (question.check, why)
    finding = Noted("check_incomplete", "warning", summary)
    publish(CheckResult(question.check, (), summary, [finding], number=question.number), speaks=False)


_MAKE: Dict[str, Callable[[PageQuestion], object]] = {
    "same": _same,
    "placement": _placement,
    "mesh": _mesh,
    "barrier": lambda question: barrier(question.deadline, number=question.number),
    "bandwidth": lambda question: bandwidth(seconds=question.deadline, number=question.number),
    "stragglers": lambda question: stragglers(seconds=question.deadline, number=question.number),
}
