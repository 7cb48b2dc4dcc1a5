"""What ``--via`` may say, and the words that it becomes for a node."""

from __future__ import annotations

import pytest

from collectors.fleet.targets.chosen import Target, TargetError
from collectors.fleet.via.way import any_command, way_of

NODE = Target("eve@gpu1:2222", "gpu1", "eve", 2222)


def test_words_are_split_as_by_a_shell_and_nothing_is_expanded() -> None:
    way = any_command(r"""tsh ssh --cluster='my lab' -p %p %r@%h "$HOME" \* 100%% sh""")
    assert way.words(NODE) == ["tsh", "ssh", "--cluster=my lab", "-p", "2222", "eve@gpu1", "$HOME", "*", "100%", "sh"]
    assert any_command("x %n").words(NODE) == ["x", "eve@gpu1:2222"]
    assert any_command("docker exec -i %h sh").words(Target("a;b", "a;b")) == ["docker", "exec", "-i", "a;b", "sh"]
    assert any_command("x %h").terminal(Target("a", "a")) == ["x", "a"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("docker exec -i sh", "no %h"), ("x %q", "%q means nothing"), ("x %h %", "means nothing"), ("x 'a %h", "split"),
        ("", "no %h"), ("%h sh", "first word"), ("srum", "no way by name"),
    ],
)  # fmt: skip
def test_what_is_no_way(text: str, why: str) -> None:
    with pytest.raises(TargetError, match=why):
        way_of(text)
