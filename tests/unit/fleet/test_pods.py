"""Pods as kubectl prints them: which run, which play the same part, and why one does not run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet.targets.pods import BadPods, present, read_pods

JOBSET = {
    "jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": "workers",
    "jobset.sigs.k8s.io/job-index": "0", "batch.kubernetes.io/job-completion-index": "1",
}  # fmt: skip
KUBEFLOW = {
    "training.kubeflow.org/job-name": "t", "training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/replica-index": "2",
}  # fmt: skip
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def pod(name: str, labels: dict[str, str], state: dict[str, Any], created: str = "2026-01-01", **more: Any) -> Any:
    status = {"phase": "Running" if "running" in state else "Pending",
              "containerStatuses": [{"name": "main", "state": state, "restartCount": 2, **more}]}  # fmt: skip
    return {"metadata": {"name": name, "labels": labels, "creationTimestamp": created}, "status": status}


def listed(*pods: Any) -> str:
    return json.dumps({"kind": "List", "items": pods})


def test_the_pod_that_plays_a_part_now() -> None:
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    pods = read_pods(
        listed(
            pod("train-workers-0-1-abcde", JOBSET, killed, "2026-01-01"),
            pod("train-workers-0-1-fghij", JOBSET, RUNNING, "2026-01-02"),
            pod("t-worker-2", KUBEFLOW, {"waiting": {"reason": "CrashLoopBackOff"}}, lastState=killed),
            pod("plain", {}, RUNNING),
        )
    )
    now = present(pods)
    assert sorted(pod.name for pod in now.values()) == ["plain", "t-worker-2", "train-workers-0-1-fghij"]
    assert pods[0].role == pods[1].role == ("train", "workers", "0", "1")
    assert pods[2].why == "Pending; CrashLoopBackOff; OOMKilled, exit code 137"
    assert (pods[1].runs, pods[0].runs) == (True, False)


def test_one_that_leaves_or_lacks_the_container_does_not_run() -> None:
    leaving = pod("a", {}, RUNNING)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-03"
    assert [(one.runs, one.why) for one in read_pods(listed(leaving))] == [(False, "is being deleted")]
    (other,) = read_pods(json.dumps(pod("a", {}, RUNNING)), "sidecar")
    assert (other.runs, other.why) == (False, "Running; it has no container sidecar")


def test_names_are_no_options_and_texts_no_escapes() -> None:
    waiting = {"waiting": {"reason": "\x1b[31mBad" * 100}}
    assert read_pods(listed(pod("-o=x", {}, RUNNING), pod("A b", {}, RUNNING))) == ()
    (found,) = read_pods(listed(pod("a", {}, waiting)))
    assert "\x1b" not in found.why
    assert len(found.why) < 300


@pytest.mark.parametrize("text", ["", "nothing", "[]", '{"items": 3}', '"x"'])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(BadPods):
        read_pods(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["metadata", "name", "labels", "status", "containerStatuses", "state", "running", "phase"]),
        inner, max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(_JSON, max_size=3))
def test_any_document_is_read_or_refused(items: list[Any]) -> None:
    for found in read_pods(json.dumps({"items": items})):
        assert found.name
