"""The frames that everything inside of them is a part of: data, checkpoints, compilation.

Versions as in :mod:`hangtop.diagnosis.stacks.frame_table`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from collectors.samples.stacks import Frame
from hangtop.diagnosis.stacks.frame_table import ANY, C10D, DDP
from hangtop.diagnosis.stacks.frames import function, owner_class
from hangtop.diagnosis.stacks.states import Meaning, Phase


class PhaseRow(NamedTuple):
    """Functions that everything inside of them is a part of; ``meaning`` where no frame further in says more."""

    file: str
    names: str
    phase: Phase
    meaning: Meaning | None = None


PHASES: tuple[PhaseRow, ...] = (
    PhaseRow("torch/utils/data/dataloader.py", "_try_get_data _get_data _shutdown_workers _reset", "data",
             Meaning.DATA_WORKERS),
    *(PhaseRow(file, ANY, "data", Meaning.DATA) for file in (
        "torch/utils/data/", "/torchdata/", "/webdataset/", "/site-packages/datasets/", "/streaming/base/",
        "accelerate/data_loader.py", "loops/fetchers.py", "megatron/core/datasets/", "megatron/training/datasets/",
        "transformers/tokenization_utils", "transformers/data/")),
    PhaseRow("torch/serialization.py", "save _save _legacy_save __exit__", "checkpoint", Meaning.SAVES),
    PhaseRow("torch/serialization.py", "load _load _legacy_load", "checkpoint", Meaning.LOADS),
    *(PhaseRow(file, ANY, "checkpoint", Meaning.CHECKPOINT) for file in (
        "torch/distributed/checkpoint/", "accelerate/checkpointing.py", "deepspeed/runtime/checkpoint_engine/",
        "megatron/training/checkpointing.py", "megatron/checkpointing.py", "megatron/core/dist_checkpointing/",
        "trainer/connectors/checkpoint_connector.py", "fabric/utilities/cloud_io.py", "/orbax/checkpoint/")),
    PhaseRow("safetensors/torch.py", "save_file save load_file load save_model load_model", "checkpoint",
             Meaning.CHECKPOINT),
    PhaseRow("transformers/trainer.py", "_save_checkpoint save_model _save _save_optimizer_and_scheduler "
             "_load_from_checkpoint _load_optimizer_and_scheduler", "checkpoint", Meaning.CHECKPOINT),
    PhaseRow("transformers/modeling_utils.py", "save_pretrained from_pretrained", "checkpoint", Meaning.CHECKPOINT),
    PhaseRow("accelerate/accelerator.py", "save save_state save_model load_state", "checkpoint", Meaning.CHECKPOINT),
    PhaseRow("deepspeed/runtime/engine.py", "save_checkpoint load_checkpoint save_16bit_model", "checkpoint",
             Meaning.CHECKPOINT),
    PhaseRow("callbacks/model_checkpoint.py", "_save_checkpoint _save_topk_checkpoint _save_last_checkpoint",
             "checkpoint", Meaning.CHECKPOINT),
    # not eval_frame.py nor runtime_wrappers.py, which stay on the stack of compiled code that runs
    *(PhaseRow(file, ANY, "compile", Meaning.COMPILES) for file in (
        "torch/_dynamo/convert_frame.py", "torch/_dynamo/output_graph.py", "torch/_dynamo/symbolic_convert.py",
        "torch/_functorch/aot_autograd.py", "torch/_functorch/_aot_autograd/graph_compile.py",
        "torch/_inductor/graph.py", "torch/_inductor/scheduler.py", "torch/_inductor/select_algorithm.py",
        "triton/compiler/", "triton/runtime/build.py", "jax/_src/compiler.py")),
    PhaseRow("torch/_inductor/compile_fx.py", "compile_fx compile_fx_inner fx_codegen_and_compile codegen_and_compile "
             "fw_compiler_base bw_compiler _compile_fx_inner", "compile", Meaning.COMPILES),
    PhaseRow("torch/_inductor/async_compile.py", ANY, "compile", Meaning.COMPILES),
    PhaseRow("torch/_inductor/codecache.py", "load load_async compile result wait", "compile", Meaning.COMPILES),
    PhaseRow("torch/_inductor/runtime/triton_heuristics.py", "autotune_to_one_config benchmark_all_configs "
             "coordinate_descent_tuning precompile bench", "compile", Meaning.COMPILES),
    PhaseRow("triton/runtime/autotuner.py", "_bench benchmark", "compile", Meaning.COMPILES),
    PhaseRow("jax/_src/interpreters/", "compile from_hlo _cached_compilation lower_sharding_computation "
             "_cached_lowering_to_hlo lower_jaxpr_to_module", "compile", Meaning.COMPILES),
    PhaseRow("torch/utils/cpp_extension.py", "load load_inline _jit_compile _write_ninja_file_and_build_library "
             "_run_ninja_build", "compile", Meaning.COMPILES),
    PhaseRow("deepspeed/ops/op_builder/", "load jit_load", "compile", Meaning.COMPILES),
    PhaseRow("transformers/trainer.py", "evaluate evaluation_loop prediction_loop predict", "evaluation",
             Meaning.EVALUATES),
    PhaseRow("loops/evaluation_loop.py", ANY, "evaluation", Meaning.EVALUATES),
    PhaseRow("megatron/training/training.py", "evaluate evaluate_and_print_results", "evaluation", Meaning.EVALUATES),
    # forward and backward: only the phase, unless nothing of the user's is further in
    PhaseRow("torch/autograd/graph.py", "_engine_run_backward", "backward"),
    PhaseRow("torch/autograd/__init__.py", "backward grad", "backward"),
    PhaseRow("torch/_tensor.py", "backward", "backward"),
    PhaseRow("megatron/core/pipeline_parallel/schedules.py", "backward_step custom_backward", "backward"),
    PhaseRow("deepspeed/runtime/engine.py", "backward", "backward"),
    PhaseRow(DDP, "forward _run_ddp_forward _pre_forward", "forward"),
    PhaseRow("torch/distributed/fsdp/fully_sharded_data_parallel.py", "forward", "forward"),
    PhaseRow("fsdp/_fsdp_state.py", "_pre_forward _root_pre_forward _post_forward", "forward"),
    PhaseRow("fsdp/_fully_shard/_fsdp_state.py", "_pre_forward _root_pre_forward _post_forward", "forward"),
    PhaseRow("deepspeed/runtime/engine.py", "forward", "forward"),
    PhaseRow("torch/distributed/algorithms/join.py", "__exit__", "joined"),
    # start and end
    PhaseRow("<frozen importlib._bootstrap>", "_find_and_load", "init"),
    PhaseRow(DDP, "__init__ _ddp_init_helper", "init"),
    PhaseRow(C10D, "init_process_group new_group", "init"),
    PhaseRow("/threading.py", "_shutdown", "shutdown", Meaning.LEFT),
    PhaseRow("/concurrent/futures/thread.py", "_python_exit", "shutdown", Meaning.LEFT),
    PhaseRow("/concurrent/futures/process.py", "_python_exit", "shutdown", Meaning.LEFT),
    PhaseRow("/multiprocessing/util.py", "_exit_function _run_finalizers", "shutdown", Meaning.LEFT),
    PhaseRow("/weakref.py", "_exitfunc", "shutdown", Meaning.LEFT),
    PhaseRow("/logging/__init__.py", "shutdown", "shutdown", Meaning.LEFT),
    PhaseRow("wandb/sdk/wandb_run.py", "finish _finish _atexit_cleanup", "shutdown", Meaning.LEFT),
)  # fmt: skip

_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_USER_NAMES: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    ("checkpoint", re.compile(r"(?:^|_)(?:checkpoint|ckpt|snapshot)|^_*sav(?:e|ing)(?:_|$)")),
    ("data", re.compile(
        r"(?:^|_)(?:dataset|data_?loader|reader|shard|tokeni[sz]|collat|sampler|getitem|prefetch|corpus|augment)"
        r"|^data$|loader$"
        r"|^_*(?:load|next|gets?|fetch|read|iter|decode|pre_?process|parse|download)_.*(?:batch|sample|example|data|record)"
    )),
    ("evaluation", re.compile(r"^_*(?:eval|valid)")),
)  # fmt: skip
"""How people call functions and classes of their own that read data, save, or evaluate: a hint, no proof."""


@lru_cache(maxsize=4096)
def _phase_of_name(name: str) -> Phase | None:
    words = _WORD_STARTS.sub("_", name).lower()
    return next((phase for phase, pattern in _USER_NAMES if pattern.search(words)), None)


def phase_by_name(user: Sequence[Frame]) -> Phase | None:
    """What the names of user functions (innermost first), of the innermost one's class and of its file say."""
    if not user:
        return None
    inner = user[0]
    stem = inner.file.rpartition("/")[2].removesuffix(".py")
    names = [function(inner.name), owner_class(inner.name), stem, *(function(frame.name) for frame in user[1:])]
    return next((phase for name in names if (phase := _phase_of_name(name)) is not None), None)
