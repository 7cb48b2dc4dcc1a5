"""A job whose ranks wait as over NCCL, below Python, started by a nursery: HX_LAYOUT and HX_ARGUMENTS say which."""

from __future__ import annotations

import os
import shlex
import sys

from tests.support.simulated_nccl import data_parallel, megatron

sys.argv += shlex.split(os.environ["HX_ARGUMENTS"])
(data_parallel if os.environ["HX_LAYOUT"] == "data" else megatron).main()
