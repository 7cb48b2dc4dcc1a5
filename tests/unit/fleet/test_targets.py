"""Words, sets and hostfiles become targets, or one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import Target, TargetError, parse, resolve


def names(*words: str) -> list[str]:
    return [target.name for target in parse(words)]


def test_words_and_sets() -> None:
    assert list(parse(["eve@node1:2222"])) == [Target("eve@node1:2222", "node1", "eve", 2222)]
    assert list(parse(["a@b@node1"])) == [Target("a@b@node1", "node1", "a@b", None)]
    assert list(parse(["fe80::1", "[fe80::2]:23"])) == [
        Target("fe80::1", "fe80::1"), Target("[fe80::2]:23", "fe80::2", None, 23)
    ]  # fmt: skip
    assert names("gpu[001-003,070]") == ["gpu001", "gpu002", "gpu003", "gpu070"]
    assert names("eve@gpu[1-2]:2222,b") == ["eve@gpu1:2222", "eve@gpu2:2222", "b"]


@pytest.mark.parametrize(
    "word", ["", "-x", "a b", "a;b", "gpu[", "gpu[1-", "h:0", "h:99999", "@group", "-o@h", "gpu[1-4]!gpu[2-3]",
             "gpu[1-999999999]", "gpu[1-9999][1-9999]", "gpu[@group]", "\x1b[31m"]
)  # fmt: skip
def test_words_that_name_nothing(word: str) -> None:
    with pytest.raises(TargetError) as caught:
        resolve([word])
    assert "\n" not in str(caught.value)


def test_a_node_named_twice_counts_once_and_nothing_is_this_machine() -> None:
    assert [target.name for target in resolve(["b", "a", "b", "a[1-2]", "a2"])] == ["b", "a", "a1", "a2"]
    assert [target.name for target in resolve(["gpu2"], more=["gpu[1-2]", "big7"])] == ["gpu2", "gpu1", "big7"]
    (target,) = resolve([])
    assert target.local
    assert target.name


def test_hostfiles(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(
        b"\xef\xbb\xbf# OpenMPI\r\nnode1 slots=8 max_slots=8\nnode2 slots = 8  # comment\n\neve@node3\nnode5\n"
        b"node6:2222\nnode6:22\ngpu[1-2] slots=4\nnode1\n"
    )
    assert resolve([], hostfile=path) == (
        Target("node1", "node1"), Target("node2", "node2"), Target("eve@node3", "node3", "eve"),
        Target("node5", "node5"), Target("node6:2222", "node6", None, 2222), Target("node6:22", "node6", None, 22),
        Target("gpu1", "gpu1"), Target("gpu2", "gpu2"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"\n\n-x slots=1", "hosts:3: '-x' is no host name"),
        (b"-oProxyCommand=id@node1", "hosts:1: '-oProxyCommand=id' is no user name|hosts:1: .* is no user name"),
        (b"node[1", "hosts:1: "),
        (b"# nothing\n", "hosts names no host"),
        (b"\xff\xfe\x00", "hosts: cannot be read: it is no text"),
    ],
)
def test_a_hostfile_that_is_none_says_where(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "hosts").write_bytes(text)
    with pytest.raises(TargetError, match=message):
        resolve([], hostfile=tmp_path / "hosts")
    with pytest.raises(TargetError, match="cannot be read"):
        resolve([], hostfile=tmp_path)
