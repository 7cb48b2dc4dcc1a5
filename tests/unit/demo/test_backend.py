"""Which job a demo runs, and what is said where it cannot run."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from hangtop.cli.demo import command
from hangtop.demo import backend
from hangtop.demo.backend import choose
from hangtop.demo.job.nccl import library
from hangtop.demo.job.nccl.library import NAME, NoCompilerError, build
from hangtop.demo.options import DemoOptions


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)


@pytest.fixture
def a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "compiler", lambda: "/usr/bin/cc")


@pytest.mark.usefixtures("a_compiler")
def test_a_fault_that_only_one_job_can_have_chooses_it() -> None:
    assert choose("auto", "gpu-hang") == ("nccl", "--fault gpu-hang needs it")
    assert choose("auto", "size")[0] == "gloo"
    assert choose("nccl", "lock") == ("nccl", "")
    assert choose("gloo", "lock") == ("gloo", "")
    with pytest.raises(ValueError, match="--fault gpu-hang needs --job nccl"):
        choose("gloo", "gpu-hang")
    with pytest.raises(ValueError, match="--fault size needs --job gloo"):
        choose("nccl", "size")


@pytest.mark.usefixtures("a_compiler")
def test_auto_takes_what_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    for preferred in ("gloo", "nccl"):
        monkeypatch.setattr(backend, "PREFERRED", preferred)
        assert choose("auto", "") == (preferred, "")


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_auto_takes_gloo_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "PREFERRED", "nccl")
    assert choose("auto", "lock") == ("gloo", "no C compiler is here, which --job nccl needs")
    assert choose("gloo", "") == ("gloo", "")


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize(
    ("words", "instead"), [(["--job", "nccl"], "--job gloo"), (["--fault", "gpu-hang"], "another --fault")]
)
def test_without_a_compiler_one_line_says_how_to_go_on(words: list[str], instead: str) -> None:
    done = CliRunner().invoke(command, words)
    said = f"Error: --job nccl needs a C compiler (cc, gcc or clang): install one, or use {instead}\n"
    assert (done.exit_code, done.output) == (1, said)


@pytest.mark.usefixtures("no_compiler")
def test_the_library_is_not_made_without_a_compiler(tmp_path: Path) -> None:
    with pytest.raises(NoCompilerError, match="no C compiler is here"):
        build(tmp_path)


@pytest.mark.skipif(not library.compiler(), reason="no C compiler is here")
def test_the_library_has_the_names_that_a_stack_shows(tmp_path: Path) -> None:
    path = build(tmp_path / "made")
    assert path.name == NAME == "libcudart.so.12"
    names = path.read_bytes()
    assert b"cudaStreamSynchronize\0" in names
    assert b"cudaLaunchKernel\0" in names
    assert list(path.parent.iterdir()) == [path]


def test_a_compiler_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho first >&2; echo 'fatal: no headers' >&2; exit 4\n")
    failing.chmod(0o755)
    monkeypatch.setenv("CC", str(failing))
    assert library.compiler() == shutil.which(str(failing))
    with pytest.raises(NoCompilerError, match="ends with 4: fatal: no headers"):
        build(tmp_path / "made")


def test_the_layouts_of_the_job_over_nccl(tmp_path: Path) -> None:
    from hangtop.demo import ranks

    grid = ranks.command(DemoOptions(backend="nccl", layout="grid"), tmp_path / "data")
    assert grid[1].endswith("hangtop/demo/job/nccl/megatron.py")
    assert grid[-6:] == ["--library", str(tmp_path / NAME), "--tp", "2", "--pp", "2"]
    assert ranks.command(DemoOptions(backend="nccl", layout="pipeline"), tmp_path)[-2:] == ["--pp", "4"]
    assert ranks.command(DemoOptions(backend="nccl"), tmp_path)[1].endswith("nccl/data_parallel.py")
    assert "--library" not in ranks.command(DemoOptions(), tmp_path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"layout": "pipeline"}, "the layout pipeline is one of the job over nccl"),
        ({"layout": "star", "backend": "nccl"}, "no layout is called star"),
        ({"layout": "grid", "backend": "nccl", "ranks": 6}, "6 ranks are no grid"),
        ({"fault": "gpu-hang"}, "the job over gloo cannot have the fault gpu-hang"),
        ({"fault": "size", "backend": "nccl"}, "the job over nccl cannot have the fault size"),
    ],
)
def test_what_cannot_be_shown_is_refused(asked: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DemoOptions(**asked)  # type: ignore[arg-type]
