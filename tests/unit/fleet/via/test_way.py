"""What ``--via`` may say, and the words that it becomes for a node."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from collectors.fleet.targets.chosen import Target, TargetError, parse
from collectors.fleet.targets.slurm import SlurmPart
from collectors.fleet.transport import Refused, TransportError
from collectors.fleet.via.way import any_command, way_of
from tests.support.ssh_server import home, serve
from tests.unit.fleet.via.test_piped import node

NODE = Target("eve@gpu1:2222", "gpu1", "eve", 2222)


def test_words_are_split_as_by_a_shell_and_nothing_is_expanded() -> None:
    way = any_command(r"""tsh ssh --cluster='my lab' -p %p %r@%h "$HOME" \* 100%% sh""")
    assert way.words(NODE) == ["tsh", "ssh", "--cluster=my lab", "-p", "2222", "eve@gpu1", "$HOME", "*", "100%", "sh"]
    assert any_command("x %n %u").words(NODE) == ["x", "eve@gpu1:2222", "ssh://eve@gpu1:2222"]
    assert any_command("docker exec -i %h sh").words(Target("a;b", "a;b")) == ["docker", "exec", "-i", "a;b", "sh"]


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


def test_a_pod_by_its_name_and_as_kubectl_prints_it() -> None:
    way = way_of("kubectl")
    assert way is not None
    for target in parse(["pod/a-0", "a-0"]):
        assert way.words(target) == ["kubectl", "exec", "-i", "a-0", "--", "sh"]


def test_each_node_of_a_slurm_job_by_its_own_part() -> None:
    way = way_of("slurm", parts=(SlurmPart("3", "RUNNING", "gpu[1-2]"), SlurmPart("4", "RUNNING", "big7,gpu2")))
    assert way is not None
    words = way.words(Target("gpu1", "gpu1"))
    assert words[:3] == ["srun", "--jobid=3", "--nodelist=gpu1"]
    assert words[-1] == "sh"
    assert {"--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--mpi=none"} <= set(words)
    assert not {"-u", "--unbuffered"} & set(words[: words.index("env")])
    assert words[words.index("-u") + 1] == "SLURM_PROCID", "the shell is no rank"
    assert way.words(Target("big7", "big7"))[1] == "--jobid=4"
    assert way.words(Target("gpu2", "gpu2"))[1] == "--jobid=3"
    with pytest.raises(Refused, match="gpu9: the Slurm job has no such node"):
        way.words(Target("gpu9", "gpu9"))


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")
async def test_all_commands_of_a_node_share_one_connection_of_ssh(tmp_path: Path) -> None:
    user = home(tmp_path)
    user.lines += [f"IdentityFile {user.key('user')}", "IdentitiesOnly yes"]
    async with serve() as host:
        user.knows(host)
        user.node("node0", host)
        way = way_of("ssh", user.config)
        assert way is not None
        async with node("", way) as made:
            stream = await made.start(["cat"], on_stdout=print, on_stderr=print)
            done = await asyncio.gather(*(made.run(["echo", str(number)]) for number in range(3)))
            assert [one.stdout for one in done] == [b"0\n", b"1\n", b"2\n"]
            assert host.made == 1
            stream.kill()


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")
async def test_a_host_key_that_ssh_refuses_is_refused(tmp_path: Path) -> None:
    user = home(tmp_path)
    async with serve() as host:
        user.knows(host, "another")
        user.node("node0", host)
        way = way_of("ssh", user.config)
        assert way is not None
        async with node("", way) as made:
            with pytest.raises(TransportError, match="Host key verification failed"):
                await made.run(["true"])
