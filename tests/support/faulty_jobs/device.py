"""A job whose ranks wait as over NCCL, below Python, started by a nursery: HX_LAYOUT and HX_ARGUMENTS say which."""

from __future__ import annotations

import os

import torch

from hangtop.demo.job.joining import join
from tests.support.simulated_nccl import data_parallel, megatron
from tests.support.simulated_nccl.habits import options

torch.set_num_threads(1)
asked = options()
join()
(data_parallel if os.environ["HX_LAYOUT"] == "data" else megatron).train(asked)
