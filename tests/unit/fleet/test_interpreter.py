"""A node's Python is found where it is, and what is missing is said."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet import interpreter, payload
from collectors.fleet.local import Local

HOST = "host node gpu1\nhost kernel 6.1\nhost machine x86_64\nhost uid 1000\nhost boot abc\n"


def test_the_first_that_is_new_enough() -> None:
    pythons = "python 3.6 /usr/bin/python3\npython 3.11 /usr/bin/python3.11\npython 3.9 /x\n"
    found = interpreter.read(f"Welcome!\n{pythons}{HOST}")
    assert found.python == "/usr/bin/python3.11"
    assert found.host == {"node": "gpu1", "kernel": "6.1", "machine": "x86_64", "uid": "1000", "boot": "abc"}
    assert found.noise == "Welcome!"


def test_none_that_is_new_enough() -> None:
    found = interpreter.read(f"python 3.6 /usr/bin/python3\npython 2.7 /usr/bin/python\n{HOST}")
    assert found.python == ""
    assert found.why == "its Python is 3.6 (/usr/bin/python3): 3.8 or newer is needed"
    assert interpreter.read(HOST).why == "no Python 3 there"


def test_no_shell_at_all() -> None:
    found = interpreter.read("This account is currently not available.\n")
    assert found.host == {}
    assert found.noise == "This account is currently not available."


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    found = interpreter.read(text)
    assert found.python == "" or found.python.startswith("/")


def tools(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")


def executables() -> set[str]:
    """Programs that run on this machine."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/exe"):
        with suppress(OSError):
            found.add(str(link.readlink()))
    return found


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH without a Python that is new enough."""
    tools(tmp_path, "sh", "ls", "sed", "uname", "id", "cat", "timeout", "env")
    (tmp_path / "python3").write_text("#!/bin/sh\necho 3.6\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


async def test_on_this_machine(bare: Path) -> None:
    before = executables()
    found = await interpreter.find(Local("here"))
    assert interpreter.words(found.python)[-1] in before | executables(), "that of a running process"
    assert found.older == f"3.6 ({bare}/python3)"
    assert found.host["uid"] == str(os.getuid())

    (bare / "python3.9").symlink_to(sys.executable)
    assert (await interpreter.find(Local("here"))).python == str(bare / "python3.9")


async def test_the_search_ends_at_the_first_that_serves(bare: Path) -> None:
    for name in ("python3.12", "python3.11"):
        (bare / name).write_text(f"#!/bin/sh\necho {name} >>{bare}/ran\necho {name[6:]}\n")
        (bare / name).chmod(0o755)
    assert (await interpreter.find(Local("here"))).python == str(bare / "python3.12")
    assert (bare / "ran").read_text() == "python3.12\n"


USER = 65534
"""Who is not root, and has a name everywhere."""

WHO = """
import posix
_log = posix.open({log!r}, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND, 0o666)
posix.write(_log, b"%d\\n" % posix.geteuid())
posix.close(_log)
"""


@dataclass
class Bait:
    """A Python that belongs to somebody; code of theirs runs in it however isolated it is started."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "bin" / "python3.11"

    def make(self) -> None:
        library = Path(sysconfig.get_path("stdlib"))
        mine = self.folder / "lib" / library.name
        mine.mkdir(parents=True)
        for source in library.glob("*.py"):
            shutil.copy(source, mine)
        for package in ("encodings", "collections", "importlib", "re"):
            shutil.copytree(library / package, mine / package, ignore=shutil.ignore_patterns("__pycache__"))
        with (mine / "encodings" / "__init__.py").open("a") as code:
            code.write(WHO.format(log=str(self.folder / "log")))
        self.path.parent.mkdir()
        shutil.copy(Path(sys.executable).resolve(), self.path)
        for place in (self.folder, self.path.parent, self.path):
            os.chown(place, USER, USER)
        self.folder.chmod(0o777)

    def ran_as(self) -> set[int]:
        """Who has run it."""
        return set(map(int, (self.folder / "log").read_text().split()))


@pytest.fixture
def bait() -> Iterator[Bait]:
    if os.getuid():
        pytest.skip("only root can run programs as others")
    with tempfile.TemporaryDirectory() as folder:
        made = Bait(Path(folder))
        made.make()
        yield made


async def seen(monkeypatch: pytest.MonkeyPatch, bait: Bait, uid: int) -> interpreter.FoundPython:
    """What is found where the bait, run by ``uid``, is all that runs."""
    env = {"PYTHONHOME": str(bait.folder)}
    process = await asyncio.create_subprocess_exec(bait.path, "-c", "input()", stdin=-1, user=uid, env=env)
    try:
        while not (bait.folder / "log").exists():
            assert process.returncode is None
            await asyncio.sleep(0.01)
        monkeypatch.setattr(interpreter, "_SCRIPT", interpreter._SCRIPT.replace("[0-9]*/exe", f"{process.pid}/exe"))
        return await interpreter.find(Local("here"))
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("tool", ["setpriv", "runuser", "su"])
async def test_what_belongs_to_a_user_is_run_as_that_user(
    bait: Bait, bare: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    if shutil.which(tool, path="/usr/bin:/bin:/usr/sbin:/sbin") is None:
        pytest.skip(f"no {tool} here")
    tools(bare, "true")
    (bare / tool).symlink_to(str(shutil.which(tool, path="/usr/bin:/bin:/usr/sbin:/sbin")))
    found = await seen(monkeypatch, bait, USER)
    words = interpreter.words(found.python)
    assert words[-1] == str(bait.path)
    assert tool in words
    monkeypatch.setenv("SECRET", "root's")
    said = "import os; print(os.getresuid(), os.getgroups(), os.environ.get('SECRET'))"
    done = await Local("here").run([*words, "-I", "-S", "-c", said])
    assert (
        done.stdout.decode().split() == f"({USER}, {USER}, {USER}) [{'' if tool == 'setpriv' else USER}] None".split()
    )
    assert bait.ran_as() == {USER}, "never as root"


async def test_it_is_not_run_at_all_where_nothing_can_run_it_as_that_user(
    bait: Bait, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await seen(monkeypatch, bait, USER)
    assert (found.python, bait.ran_as()) == ("", {USER})


async def test_what_root_runs_out_of_a_users_folder_is_not_run_as_root(
    bait: Bait, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await seen(monkeypatch, bait, 0)
    assert found.python == ""
    assert (bait.folder / "log").read_text() == "0\n", "by the process itself alone"


async def test_what_root_runs_in_a_container_is_not_run_here(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its path leads, here, to another file or to none; a name beside it that could be run must not be."""
    if os.getuid():
        pytest.skip("only root makes containers")
    place = tmp_path / "inside"
    place.mkdir()
    inner, theirs = shlex.quote(str(place)), shlex.quote(str(place / "python3.11"))
    within = f"mount -t tmpfs inside {inner} && cp {shlex.quote(sys.executable)} {theirs} && exec {theirs} -c 'input()'"
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    home = {"PYTHONHOME": sys.base_prefix, "PATH": path}
    process = await asyncio.create_subprocess_exec(
        str(shutil.which("unshare", path=path)), "-m", "sh", "-c", within, stdin=-1, env=home
    )
    ran = place / "ran"
    (place / "python3.11").write_text(f"#!/bin/sh\n>{ran}\necho 3.11\n")
    (place / "python3.11").chmod(0o755)
    try:
        while not (await asyncio.to_thread(os.readlink, f"/proc/{process.pid}/exe")).endswith("python3.11"):
            assert process.returncode is None
            await asyncio.sleep(0.01)
        monkeypatch.setattr(interpreter, "_SCRIPT", interpreter._SCRIPT.replace("[0-9]*/exe", f"{process.pid}/exe"))
        found = await interpreter.find(Local("here"))
    finally:
        process.kill()
        await process.wait()
    assert found.python == ""
    assert not ran.exists()


def test_the_words_of_an_owners_interpreter() -> None:
    python = interpreter.read(f"owned 3.9 setpriv 1000 100 - /home/ada/my env/bin/python3\n{HOST}").python
    words = interpreter.words(python)
    assert words[-1] == "/home/ada/my env/bin/python3"
    assert words[words.index("setpriv") + 1 :][:2] == ["--reuid=1000", "--regid=100"]
    assert payload.command(python)[: len(words)] == words
    assert interpreter.shown(python).endswith("my env/bin/python3")


@pytest.mark.parametrize(
    "line",
    [
        "setpriv 1000 100 - python3",
        "setpriv x 100 - /p",
        "runuser 1 1 - /p",
        "runuser 1 1 -c /p",
        "sudo 0 0 - /p",
        "su",
    ],
)
def test_a_line_that_names_no_owner_is_passed_over(line: str) -> None:
    assert interpreter.read(f"owned 3.9 {line}\n{HOST}").python == ""


async def test_a_command_that_nobody_watches_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_BRIEF", interpreter._BRIEF.replace("KILL 9", "KILL 0.2"))
    process = await asyncio.create_subprocess_exec(*interpreter.brief(["sleep", "60"]), stdin=-1)
    assert await asyncio.wait_for(process.wait(), 60) in (-9, 137)
    done = await Local("here").run(interpreter.brief(["sh", "-c", 'echo "$1"; exit 3', "sh", "a b"]))
    assert (done.status, done.stdout) == (3, b"a b\n")
    assert (await Local("here").run(interpreter.brief(["no-such-program"]))).status == 127
