"""What a container's program printed, without what its runtime writes around it."""

from __future__ import annotations

import json

import pytest

from collectors.samples.logs import LogEvent, LogLines
from hangtop.session.state.job_state import JobState
from tui.logs.container_lines import printed
from tui.logs.logbook import LogBook

AT = "2026-11-28T11:18:05.764213304"


@pytest.mark.parametrize("zone", ["Z", "+00:00", "-08:00"])
@pytest.mark.parametrize("stream", ["stdout F", "stderr P"])
def test_the_kubelets_form(zone: str, stream: str) -> None:
    assert printed(f"{AT}{zone} {stream} step 10  loss 2.1 ") == "step 10  loss 2.1 "


def test_dockers_form() -> None:
    record = {"log": "step \u2713 10\n", "stream": "stdout", "time": f"{AT}Z"}
    assert printed(json.dumps(record, separators=(",", ":"))) == "step \u2713 10"


@pytest.mark.parametrize(
    "text",
    [
        "", "step 10", "2026 is a year", f"{AT}Z step 10", f"{AT}Z stdout step 10", '{"log":"step', '{"log":"a","x":1}',
        '{"log":"' + "[" * 5000, '{"log":"a","stream":' + "[" * 100_000, '{"loss":2.1}',
    ],
)  # fmt: skip
def test_any_other_line_is_left_as_it_is(text: str) -> None:
    assert printed(text) == text


def test_in_the_log_book_it_is_the_line_that_its_event_is_about() -> None:
    state, book = JobState(), LogBook()
    state.events.append(
        ("node1", LogEvent("python.exception", 9.0, 0, "node1", None, "/ctr.log", 7, "KeyError: 'x'", {}))
    )
    state.event_serial += 1
    told = [f"{AT}Z stdout F step 10", f"{AT}Z stderr F KeyError: 'x'"]
    state.log_lines.append(("node1", LogLines("/ctr.log", 1, 0, "stderr", 9.0, told, 0)))
    state.log_serial += 1
    book.take(state)
    assert sorted(line.text for line in book.shown) == ["KeyError: 'x'", "step 10"], "no line twice"
