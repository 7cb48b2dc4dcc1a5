"""Pods by kubectl: the words, the complaints, and which pods a session goes into."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import Target, TargetError
from collectors.fleet.via.kubectl import PodSelection, kubectl, list_pods
from hangtop.session.live import reach
from hangtop.session.options import SessionOptions

POD = Target("a-0", "a-0")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of the test's in place of kubectl, to be filled."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "kubectl").touch()
    (tmp_path / "kubectl").chmod(0o755)
    return tmp_path / "kubectl"


def fill(tool: Path, body: str) -> None:
    tool.write_text(f'#!/bin/sh\necho "$@" >{tool.parent}/called\n{body}\n')


def test_words() -> None:
    way = kubectl(PodSelection("lab", "app=x", "main"))
    assert way.words(POD) == ["kubectl", "--namespace=lab", "exec", "-i", "a-0", "--container=main", "--", "sh"]
    assert kubectl(PodSelection()).terminal(POD) == ["kubectl", "exec", "-it", "a-0", "--", "sh"]


def test_pods_are_asked_for(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tool, "echo pod/b-0; echo pod/a-0; echo; echo pod/-x")
    assert list_pods(PodSelection("lab"), ["a-0", "b-0"]) == ["a-0", "b-0"]
    assert (tool.parent / "called").read_text().split()[-2:] == ["a-0", "b-0"]
    with pytest.raises(TargetError, match="choose them by -l"):
        list_pods(PodSelection("lab"), [])
    with pytest.raises(TargetError, match="is no name of a pod"):
        list_pods(PodSelection(), ["A_b"])
    fill(tool, "echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1")
    with pytest.raises(TargetError, match="kubectl get pods: Error from server"):
        list_pods(PodSelection(), ["a"])
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TargetError, match="kubectl is not here"):
        list_pods(PodSelection(), ["a"])


def test_a_session_of_pods(tool: Path) -> None:
    fill(tool, "echo pod/a-1; echo pod/a-0")
    found = reach(SessionOptions(via="kubectl", namespace="lab", selector="app=x"))
    assert [one.name for one in found.targets] == ["a-0", "a-1"]
    for options, why in (
        (SessionOptions(via="kubectl", targets=("a-0",), selector="app=x"), "not both"),
        (SessionOptions(via="kubectl", slurm="7"), "not into the nodes"),
        (SessionOptions(targets=("n1",), namespace="lab"), "say --via kubectl too"),
    ):
        with pytest.raises(TargetError, match=why):
            reach(options)
    fill(tool, "true")
    with pytest.raises(TargetError, match="no pod is chosen by -l app=y"):
        reach(SessionOptions(via="kubectl", selector="app=y"))
