"""Makes the C library that ranks wait in, with the C compiler that is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

NAME = "libcudart.so.12"
"""What the library is called: a stack names it so, as in a rank with a GPU."""
FLAGS = "-std=gnu11 -O1 -fPIC -shared -pthread -fno-omit-frame-pointer -fno-optimize-sibling-calls"


def compiler() -> str:
    """Path of a C compiler; empty where there is none."""
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), "")


def build(folder: Path) -> Path:
    """Compile the library into ``folder``; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).with_name("libcudart.c")
    path = folder / NAME
    subprocess.run([compiler(), *FLAGS.split(), f"-Wl,-soname,{NAME}", "-o", str(path), str(source)], check=True)
    return path
