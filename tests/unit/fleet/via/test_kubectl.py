"""Pods by kubectl: the words, the complaints, and a pod that is made anew under another name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collectors.fleet.targets.chosen import Target, TargetError
from collectors.fleet.targets.pods import read_pods
from collectors.fleet.transport import Refused, TransportError
from collectors.fleet.via import kubectl
from collectors.fleet.via.kubectl import Kubectl, PodSelection, list_pods
from hangtop.session.live import reach
from hangtop.session.options import SessionOptions
from tests.unit.fleet.test_pods import JOBSET, RUNNING, listed, pod


def target(name: str) -> Target:
    return Target(name, name)


def tool(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    script = folder / "kubectl"
    script.write_text(f'#!/bin/sh\necho "$@" >{folder}/called\n{body}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def prints(folder: Path, monkeypatch: pytest.MonkeyPatch, *pods: Any) -> None:
    (folder / "pods.json").write_text(listed(*pods))
    tool(folder, monkeypatch, f"cat {folder}/pods.json")


def test_words() -> None:
    way = Kubectl(PodSelection("lab", "app=x", "main"), read_pods(listed(pod("a-0", {}, RUNNING))))
    assert way.words(target("a-0")) == [
        "kubectl", "--namespace=lab", "exec", "-i", "a-0", "--container=main", "--", "sh"
    ]  # fmt: skip
    assert Kubectl(PodSelection(), read_pods(listed(pod("a", {}, RUNNING)))).words(target("a")) == [
        "kubectl", "exec", "-i", "a", "--", "sh"
    ]  # fmt: skip
    assert "-it" in way.terminal(target("a-0"))
    with pytest.raises(Refused, match="no such pod"):
        way.words(target("b"))


async def test_a_pod_under_another_name_is_the_same_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubectl, "_FRESH", 0.0)
    way = Kubectl(PodSelection("lab", "app=x"), read_pods(listed(pod("w-1-abcde", JOBSET, RUNNING))))
    node = target("w-1-abcde")
    assert way.names == ["w-1-abcde"]
    prints(tmp_path, monkeypatch)
    with pytest.raises(TransportError, match="its pod is gone, and no other has come"):
        await way.prepare(node)
    pending = pod("w-1-fghij", JOBSET, {"waiting": {"reason": "ContainerCreating"}})
    prints(tmp_path, monkeypatch, pending)
    with pytest.raises(TransportError, match="its pod w-1-fghij does not run: Pending; ContainerCreating"):
        await way.prepare(node)
    prints(tmp_path, monkeypatch, pod("w-1-fghij", JOBSET, RUNNING))
    await way.prepare(node)
    assert "w-1-fghij" in way.words(node)
    assert (tmp_path / "called").read_text().split() == [
        "--namespace=lab", "get", "pods", "--output=json", "--selector=app=x"
    ]  # fmt: skip
    tool(tmp_path, monkeypatch, "echo 'Unable to connect to the server: EOF' >&2; exit 1")
    with pytest.raises(TransportError, match="kubectl get pods: Unable to connect"):
        await way.prepare(node)


def test_pods_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prints(tmp_path, monkeypatch, pod("a", {}, RUNNING))
    assert [found.name for found in list_pods(PodSelection("lab"), ["a"])] == ["a"]
    assert (tmp_path / "called").read_text().split() == ["--namespace=lab", "get", "pods", "--output=json", "a"]
    with pytest.raises(TargetError, match="choose them by -l"):
        list_pods(PodSelection("lab"), [])
    with pytest.raises(TargetError, match="is no name of a pod"):
        list_pods(PodSelection(), ["A_b"])
    tool(tmp_path, monkeypatch, "echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1")
    with pytest.raises(TargetError, match="kubectl get pods: Error from server"):
        list_pods(PodSelection(), ["a"])
    tool(tmp_path, monkeypatch, "echo no json")
    with pytest.raises(TargetError, match="no JSON"):
        list_pods(PodSelection(), ["a"])
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TargetError, match="kubectl is not here"):
        list_pods(PodSelection(), ["a"])


def test_a_session_of_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prints(tmp_path, monkeypatch, pod("a-1", {}, RUNNING), pod("a-0", {}, RUNNING))
    found = reach(SessionOptions(via="kubectl", namespace="lab", selector="app=x"))
    assert [one.name for one in found.targets] == ["a-0", "a-1"]
    assert isinstance(found.way, Kubectl)
    for options, why in (
        (SessionOptions(via="kubectl", targets=("a-0",), selector="app=x"), "not both"),
        (SessionOptions(via="kubectl", slurm="7"), "not into the nodes"),
        (SessionOptions(targets=("n1",), namespace="lab"), "say --via kubectl too"),
    ):
        with pytest.raises(TargetError, match=why):
            reach(options)
    (tmp_path / "pods.json").write_text(json.dumps({"items": []}))
    with pytest.raises(TargetError, match="no pod is chosen by -l app=y"):
        reach(SessionOptions(via="kubectl", selector="app=y"))


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ('exec: "sh": executable file not found in $PATH', "kubectl debug"),
        ('pods "x" is forbidden: User "eve" cannot create resource "pods/exec"', "role"),
        ("Unable to connect to the server: dial tcp", "API server"),
        ("something new", ""),
    ],
)
def test_advice(said: str, advice: str) -> None:
    found = Kubectl(PodSelection(), ()).advice(said)
    assert advice in found
    assert bool(found) == bool(advice)
