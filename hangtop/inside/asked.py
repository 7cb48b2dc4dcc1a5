"""Makes the check that somebody at the screen asked for, at the end of the step that the question names.

The question lies on this process's page, where its own user and root alone can write it. All ranks that are to make it
are given the same step, some way ahead, so that they make it at the same point. One that cannot, or saw the question
too late, leaves word of that, so that the others do not wait for it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from hangtop.inside.checks.barrier import barrier
from hangtop.inside.checks.declining import decline
from hangtop.inside.checks.items import whole
from hangtop.inside.checks.meeting import group_of
from hangtop.inside.checks.meshes import check_mesh
from hangtop.inside.checks.placement import check_placement
from hangtop.inside.checks.same import check_same
from hangtop.inside.checks.speed import bandwidth, stragglers
from hangtop.inside.hooks import followed, hooked
from hangtop.inside.page import Page, PageQuestion
from hangtop.inside.process_groups import group_by_number
from hangtop.inside.results import CheckResult, Noted, publish


def consider(page: Page, step: int) -> None:
    """Answer the question on the page if this is its step."""
    question = page.question()
    if question is None or step < question.at_step:
        return
    page.take(question.number)
    group = group_by_number(question.group) if question.group else None
    if question.group and group is None:
        _refuse(question, "this job has no process group of the ranks that were asked")
    elif step > question.at_step:
        _excuse(question, group, "it was seen at step %d, too late for step %d" % (step, question.at_step))
    else:
        _MAKE[question.check](question, group)


def _same(question: PageQuestion, group: Any) -> None:
    model = followed()
    things: List[Any] = list(hooked.optimizers) if model is None else [model, *whole(hooked.optimizers, model)]
    among = hooked.group if group is None else group
    if not things:
        _excuse(
            question, among, "no model and no optimizer is known here: call hangtop.inside.follow(model, optimizer)"
        )
        return
    if not _replicas(among):
        why = "these ranks are no replicas of one another: follow() was given another group for those"
        _excuse(question, among, why)
        return
    check_same(*things, group=among, seconds=question.deadline, number=question.number)


def _replicas(group: Any) -> bool:
    """Whether the ranks of a group are replicas, as far as the job has said which are."""
    if hooked.group is None or group is hooked.group:
        return True
    return set(group_of(group).ranks) <= set(group_of(hooked.group).ranks)


def _placement(question: PageQuestion, group: Any) -> None:
    model = followed()
    if model is None:
        _excuse(question, group, "no model is known here: call hangtop.inside.follow(model)")
        return
    check_placement(model, group=group, seconds=question.deadline, number=question.number)


def _mesh(question: PageQuestion, group: Any) -> None:
    meshes = [getattr(parameter, "device_mesh", None) for parameter in getattr(followed(), "parameters", list)()]
    found = next((mesh for mesh in meshes if mesh is not None), None)
    if found is None:
        _excuse(question, group, "no parameter of a model that is known here lies on a mesh")
        return
    check_mesh(found, group=group, seconds=question.deadline, number=question.number)


def _excuse(question: PageQuestion, group: Any, why: str) -> None:
    decline(question.check, why, group=group, number=question.number)


def _refuse(question: PageQuestion, why: str) -> None:
    summary = "check %s was not made: %s" % (question.check, why)
    finding = Noted("check_incomplete", "warning", summary)
    publish(CheckResult(question.check, (), summary, [finding], number=question.number), speaks=False)


_MAKE: Dict[str, Callable[[PageQuestion, Any], object]] = {
    "same": _same,
    "placement": _placement,
    "mesh": _mesh,
    "barrier": lambda question, group: barrier(question.deadline, group=group, number=question.number),
    "bandwidth": lambda question, group: bandwidth(group=group, seconds=question.deadline, number=question.number),
    "stragglers": lambda question, group: stragglers(group=group, seconds=question.deadline, number=question.number),
}
