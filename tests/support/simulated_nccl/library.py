"""Makes the C library that ranks wait in, with the C compiler that is there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("libcudart.c")
NAME: Final = "libcudart.so.12"
"""What the library is called: a stack names it so, as in a rank with a GPU."""
COMPILERS: Final = ("cc", "gcc", "clang")
TIME: Final = 60.0
"""Seconds that a compiler may take; it takes a tenth of one."""


class NoCompilerError(Exception):
    """The library cannot be made here; the text says why."""


def compiler() -> str:
    """Path of a C compiler, ``$CC`` first; empty where there is none."""
    asked = os.environ.get("CC", "").split()[:1]
    return next((path for name in (*asked, *COMPILERS) if (path := shutil.which(name))), "")


def build(folder: Path) -> Path:
    """Compile the library into ``folder``; its path. Raises :class:`NoCompilerError`."""
    program = compiler()
    if not program:
        raise NoCompilerError(f"no C compiler is here (none of {', '.join(COMPILERS)})")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    part = folder / f"{NAME}.{os.getpid()}"
    flags = [
        "-std=gnu11",
        "-O1",
        "-fPIC",
        "-shared",
        "-pthread",
        "-fno-omit-frame-pointer",
        "-fno-optimize-sibling-calls",
    ]
    try:
        done = subprocess.run(
            [program, *flags, f"-Wl,-soname,{NAME}", "-o", str(part), str(SOURCE)],
            capture_output=True, text=True, check=False, timeout=TIME,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoCompilerError(f"{program}: {error}") from None
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise NoCompilerError(f"{program} ends with {done.returncode}: {said[-1] if said else 'no word'}")
    part.replace(path)
    return path
