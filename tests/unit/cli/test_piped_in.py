"""What is piped into a command is read like a file, and a keyboard or a pipe of nobody is not waited for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

RUN = [sys.executable, "-c", "from hangtop.cli.main import main; main()", "analyze"]
LOG = b"""[rank1]: Traceback (most recent call last):
[rank1]:   File "train.py", line 3, in <module>
[rank1]: ValueError: bad batch
"""


def judged(*words: str, given: bytes = b"") -> dict[str, object]:
    done = subprocess.run([*RUN, *words, "--json"], input=given, capture_output=True, timeout=180)
    assert done.stderr == b""
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("word", ["-", "/dev/stdin"])
def test_a_log_that_is_piped_in_is_judged(word: str) -> None:
    answer = judged(word, given=LOG)
    assert answer["verdict"] == "crashed"
    assert "ValueError" in str(answer["findings"])
    assert "standard-input" in str(answer["files"])
