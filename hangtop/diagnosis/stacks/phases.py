"""Frames that everything inside of them is a part of: data, checkpoints, compilation, evaluation. With sources.

Versions as in ``waits.py``; so were looked up transformers 4.30.2 and 4.57.1, torchdata 0.7.1 and 0.11.0, datasets 2.14
and 4.0, webdataset 0.2.111, mosaicml-streaming 0.12, litdata 0.2.50, safetensors 0.4.5 and wandb 0.22. Rows for DALI,
ffcv, Triton, Transformer Engine and the training scripts of Megatron-LM rest on the layout of their repositories.
"""

from __future__ import annotations

from hangtop.diagnosis.stacks.generic import SHUTDOWN_PHASES
from hangtop.diagnosis.stacks.vocabulary import ANY, Owner, Phase

_READS = "reads data"
_SAVES = "saves or loads a checkpoint"
_COMPILES = "compiles"
_EVALUATES = "evaluates"

PHASES: tuple[Phase, ...] = (
    # data
    Phase("torch/utils/data/dataloader.py", "_try_get_data _get_data", "data", "waits for its data workers",
          "run 2.13; 2.1-2.13", "data", "helper"),
    Phase("torch/utils/data/dataloader.py", "_shutdown_workers _reset", "data", "waits for its data workers to end",
          "2.1-2.13", "data", "helper"),
    Phase("torch/utils/data/dataloader.py", ANY, "data", _READS, "run 2.13; 2.1-2.13", "data"),
    Phase("torch/utils/data/_utils/", ANY, "data", _READS, "run 2.13; 2.1-2.13", "data"),
    Phase("tensorflow/python/data/ops/", ANY, "data", _READS, "run TensorFlow 2.21", "data"),
    Phase("torch/utils/data/datapipes/", ANY, "data", _READS, "2.1-2.13", "data"),
    Phase("/torchdata/", ANY, "data", _READS, "torchdata 0.7-0.11", "data"),
    Phase("/webdataset/", ANY, "data", _READS, "webdataset 0.2", "data"),
    Phase("/site-packages/datasets/", ANY, "data", _READS, "HF datasets 2-4", "data"),
    Phase("/streaming/base/", ANY, "data", _READS, "mosaicml-streaming 0.7-0.12", "data"),
    Phase("/litdata/", ANY, "data", _READS, "litdata 0.2", "data"),
    Phase("/nvidia/dali/", ANY, "data", _READS, "DALI 1", "data"),
    Phase("/ffcv/", ANY, "data", _READS, "ffcv 1", "data"),
    Phase("accelerate/data_loader.py", ANY, "data", _READS, "Accelerate 0.20, 1.11", "data"),
    Phase("loops/fetchers.py", ANY, "data", _READS, "Lightning 2.5", "data"),
    Phase("megatron/core/datasets/", ANY, "data", _READS, "Megatron core 0.5, 0.15", "data"),
    Phase("megatron/training/datasets/", ANY, "data", _READS, "Megatron core 0.15", "data"),
    Phase("transformers/tokenization_utils", ANY, "data", "tokenizes", "transformers 4", "data"),
    Phase("transformers/data/", ANY, "data", _READS, "transformers 4", "data"),
    # checkpoints
    Phase("torch/serialization.py", "save _save _legacy_save __exit__", "checkpoint", "saves a checkpoint",
          "run 2.13; 2.1-2.13", "checkpoint", "storage"),
    Phase("torch/serialization.py", "load _load _legacy_load", "checkpoint", "loads a checkpoint", "2.1-2.13",
          "checkpoint", "storage"),
    Phase("torch/distributed/checkpoint/", ANY, "checkpoint", _SAVES, "run 2.13; 2.1-2.13", "checkpoint"),
    Phase("safetensors/torch.py", "save_file save load_file load save_model load_model", "checkpoint", _SAVES,
          "safetensors 0.4", "checkpoint", "storage"),
    Phase("transformers/trainer.py", "_save_checkpoint save_model _save "
          "_save_optimizer_and_scheduler _load_from_checkpoint _load_optimizer_and_scheduler",
          "checkpoint", _SAVES, "transformers 4.30-4.57", "checkpoint"),
    Phase("transformers/modeling_utils.py", "save_pretrained from_pretrained", "checkpoint", _SAVES, "transformers 4",
          "checkpoint"),
    Phase("accelerate/accelerator.py", "save save_state save_model load_state", "checkpoint", _SAVES,
          "Accelerate 0.20, 1.11", "checkpoint"),
    Phase("accelerate/checkpointing.py", ANY, "checkpoint", _SAVES, "Accelerate 0.20, 1.11", "checkpoint"),
    Phase("deepspeed/runtime/engine.py",
          "save_checkpoint load_checkpoint _save_checkpoint _load_checkpoint _load_zero_checkpoint "
          "_save_zero_checkpoint _save_moe_checkpoint save_16bit_model save_fp16_model _create_checkpoint_file "
          "_create_zero_checkpoint_files", "checkpoint", _SAVES, "DeepSpeed 0.9.5-0.19", "checkpoint"),
    Phase("deepspeed/runtime/checkpoint_engine/", ANY, "checkpoint", _SAVES, "DeepSpeed 0.9.5-0.19", "checkpoint"),
    Phase("megatron/training/checkpointing.py", ANY, "checkpoint", _SAVES, "Megatron core 0.5, 0.15", "checkpoint"),
    Phase("megatron/training/training.py", "save_checkpoint_and_time", "checkpoint", _SAVES, "Megatron core 0.15",
          "checkpoint"),
    Phase("megatron/checkpointing.py", ANY, "checkpoint", _SAVES, "Megatron-LM 23", "checkpoint"),
    Phase("megatron/core/dist_checkpointing/", ANY, "checkpoint", _SAVES, "Megatron core 0.5, 0.15", "checkpoint"),
    Phase("trainer/connectors/checkpoint_connector.py", ANY, "checkpoint", _SAVES, "Lightning 2.5", "checkpoint"),
    Phase("callbacks/model_checkpoint.py",
          "_save_checkpoint _save_topk_checkpoint _save_last_checkpoint _save_monitor_checkpoint "
          "_save_none_monitor_checkpoint _update_best_and_save", "checkpoint", _SAVES, "Lightning 2.5", "checkpoint"),
    Phase("fabric/utilities/cloud_io.py", "_load _atomic_save", "checkpoint", _SAVES, "Lightning 2.5", "checkpoint"),
    Phase("fabric/plugins/io/torch_io.py", "save_checkpoint load_checkpoint", "checkpoint", _SAVES, "Lightning 2.5",
          "checkpoint"),
    # compilation: not eval_frame.py nor runtime_wrappers.py, which stay on the stack of compiled code that runs
    Phase("jax/_src/compiler.py", ANY, "compile", _COMPILES, "run JAX 0.10; 0.4-0.11", "compile"),
    Phase("jax/_src/interpreters/pxla.py", "compile from_hlo _cached_compilation lower_sharding_computation "
          "_cached_lowering_to_hlo", "compile", _COMPILES, "run JAX 0.10; 0.4-0.11", "compile"),
    Phase("jax/_src/interpreters/mlir.py", "lower_jaxpr_to_module lower_jaxpr_to_fun jaxpr_subcomp", "compile",
          _COMPILES, "JAX 0.4-0.11", "compile"),
    Phase("torch/_dynamo/convert_frame.py", ANY, "compile", _COMPILES, "run 2.13; 2.1-2.13", "compile"),
    Phase("torch/_dynamo/output_graph.py", ANY, "compile", _COMPILES, "run 2.13; 2.1-2.13", "compile"),
    Phase("torch/_dynamo/symbolic_convert.py", ANY, "compile", _COMPILES, "run 2.13; 2.1-2.13", "compile"),
    Phase("torch/_functorch/aot_autograd.py", ANY, "compile", _COMPILES, "2.1-2.13", "compile"),
    Phase("torch/_functorch/_aot_autograd/graph_compile.py", ANY, "compile", _COMPILES, "2.9-2.13", "compile"),
    Phase("torch/_inductor/compile_fx.py",
          "compile_fx compile_fx_inner fx_codegen_and_compile codegen_and_compile fw_compiler_base bw_compiler "
          "_compile_fx_inner", "compile", _COMPILES, "2.1-2.13", "compile"),
    Phase("torch/_inductor/graph.py", ANY, "compile", _COMPILES, "2.1-2.13", "compile"),
    Phase("torch/_inductor/scheduler.py", ANY, "compile", _COMPILES, "2.1-2.13", "compile"),
    Phase("torch/_inductor/async_compile.py", ANY, "compile", "waits for its compile workers", "2.4-2.13", "compile",
          "helper"),
    Phase("torch/_inductor/codecache.py", "load load_async compile result wait", "compile", _COMPILES,
          "2.1-2.13", "compile"),
    Phase("torch/_inductor/select_algorithm.py", ANY, "compile", "tunes kernels", "2.1-2.13", "compile"),
    Phase("torch/_inductor/runtime/triton_heuristics.py",
          "autotune_to_one_config benchmark_all_configs coordinate_descent_tuning precompile bench", "compile",
          "tunes kernels", "2.4-2.13", "compile"),
    Phase("triton/compiler/", ANY, "compile", "compiles kernels", "Triton 2-3", "compile"),
    Phase("triton/runtime/build.py", ANY, "compile", "compiles kernels", "Triton 2-3", "compile"),
    Phase("triton/runtime/autotuner.py", "_bench benchmark", "compile", "tunes kernels", "Triton 2-3", "compile"),
    Phase("torch/utils/cpp_extension.py", "load load_inline _jit_compile _write_ninja_file_and_build_library "
          "_run_ninja_build", "compile", "builds an extension", "2.1-2.13", "compile", "helper"),
    Phase("deepspeed/ops/op_builder/", "load jit_load", "compile", "builds an extension", "DeepSpeed 0.9.5-0.19",
          "compile", "helper"),
    # evaluation
    Phase("transformers/trainer.py", "evaluate evaluation_loop prediction_loop predict prediction_step", "evaluation",
          _EVALUATES, "transformers 4.30-4.57", "evaluation"),
    Phase("lightning/pytorch/loops/evaluation_loop.py", ANY, "evaluation", _EVALUATES, "Lightning 2.5", "evaluation"),
    Phase("pytorch_lightning/loops/evaluation_loop.py", ANY, "evaluation", _EVALUATES, "Lightning 2.5", "evaluation"),
    Phase("megatron/training/training.py", "evaluate evaluate_and_print_results", "evaluation", _EVALUATES,
          "Megatron core 0.5, 0.15", "evaluation"),
    Phase("deepspeed/runtime/pipe/engine.py", "eval_batch", "evaluation", _EVALUATES, "DeepSpeed 0.9.5-0.19",
          "evaluation"),
    # forward and backward: only the context, unless nothing of the user's is further in
    Phase("torch/autograd/graph.py", "_engine_run_backward", "backward", "is in backward", "run 2.13; 2.3-2.13"),
    Phase("torch/autograd/__init__.py", "backward grad", "backward", "is in backward", "run 2.13; 2.1-2.13"),
    Phase("torch/_tensor.py", "backward", "backward", "is in backward", "run 2.13; 2.1-2.13"),
    Phase("megatron/core/pipeline_parallel/schedules.py", "backward_step custom_backward", "backward",
          "is in backward", "Megatron core 0.5, 0.15"),
    Phase("deepspeed/runtime/engine.py", "backward", "backward", "is in backward", "DeepSpeed 0.9.5-0.19"),
    Phase("torch/nn/parallel/distributed.py", "forward _run_ddp_forward _pre_forward", "forward",
          "is in the forward pass of DDP", "run 2.13; 2.1-2.13"),
    Phase("torch/distributed/fsdp/fully_sharded_data_parallel.py", "forward", "forward",
          "is in the forward pass of FSDP", "run 2.13; 2.1-2.13"),
    Phase("torch/distributed/fsdp/_fully_shard/_fsdp_state.py", "_pre_forward _root_pre_forward _post_forward",
          "forward", "is in the forward pass of FSDP2", "run 2.13; 2.6-2.13"),
    Phase("torch/distributed/_composable/fsdp/_fsdp_state.py", "_pre_forward _root_pre_forward _post_forward",
          "forward", "is in the forward pass of FSDP2", "2.3-2.5"),
    Phase("deepspeed/runtime/engine.py", "forward", "forward", "is in the forward pass of DeepSpeed",
          "DeepSpeed 0.9.5-0.19"),
    Phase("torch/optim/optimizer.py", "wrapper profile_hook_step", "optimizer", "is in the optimizer's step",
          "run 2.13; 2.1-2.13"),
    Phase("deepspeed/runtime/engine.py", "step _take_model_step", "optimizer", "is in the optimizer's step",
          "DeepSpeed 0.9.5-0.19"),
    # what another process asked for
    Phase("/socketserver.py", "process_request process_request_thread finish_request _handle_request_noblock",
          "serving", "serves a request", "run CPython 3.11; 3.8-3.14"),
    Phase("/xmlrpc/server.py", ANY, "serving", "serves a request", "CPython 3.8-3.14"),
    Phase("uvicorn/protocols/", ANY, "serving", "serves a request", "uvicorn 0.30"),
    Phase("aiohttp/web_protocol.py", ANY, "serving", "serves a request", "aiohttp 3"),
    Phase("grpc/_server.py", ANY, "serving", "serves a request", "grpcio 1"),
    Phase("torch/distributed/rpc/internal.py", "_run_function", "serving", "serves a call", "run 2.13"),
    # its own data are over, and it takes part in what the others still do
    Phase("torch/distributed/algorithms/join.py", "__exit__", "joined", "goes along with ranks that have more data",
          "run 2.13; 2.1-2.13"),
    # start
    Phase("<frozen importlib._bootstrap>", "_find_and_load", "init", "imports modules", "run CPython 3.11; 3.8-3.14"),
    Phase("torch/nn/parallel/distributed.py", "__init__ _ddp_init_helper", "init", "wraps the model in DDP",
          "run 2.13; 2.1-2.13"),
    Phase("torch/distributed/distributed_c10d.py", "init_process_group new_group", "init", "starts communication",
          "run 2.13; 2.1-2.13"),
    *SHUTDOWN_PHASES,
    Phase("wandb/sdk/wandb_run.py", "finish _finish _atexit_cleanup", "shutdown", "closes its W&B run",
          "wandb 0.15-0.22", "shutdown"),
)  # fmt: skip

OWNERS: tuple[Owner, ...] = (
    Owner("megatron/core/tensor_parallel/", ANY, "tensor", "Megatron core 0.5, 0.15"),
    Owner("megatron/core/pipeline_parallel/", "_communicate _communicate_shapes _batched_p2p_ops _p2p_ops recv_forward "
          "recv_backward send_forward send_backward send_forward_recv_backward send_backward_recv_forward "
          "send_forward_recv_forward send_backward_recv_backward", "pipeline", "Megatron core 0.5, 0.15"),
    Owner("megatron/core/transformer/moe/", ANY, "expert", "Megatron core 0.5, 0.15"),
    Owner("megatron/core/distributed/", ANY, "data", "Megatron core 0.5, 0.15"),
    Owner("megatron/core/optimizer/distrib_optimizer.py", ANY, "data", "Megatron core 0.15"),
    Owner("deepspeed/runtime/pipe/p2p.py", ANY, "pipeline", "DeepSpeed 0.9.5-0.19"),
    Owner("deepspeed/moe/", ANY, "expert", "DeepSpeed 0.9.5-0.19"),
    Owner("deepspeed/sequence/", ANY, "context", "DeepSpeed 0.18, 0.19"),
    Owner("deepspeed/runtime/zero/", ANY, "shard", "DeepSpeed 0.9.5-0.19"),
    Owner("torch/distributed/fsdp/", ANY, "shard", "run 2.13; 2.1-2.13"),
    Owner("torch/distributed/_composable/fsdp/", ANY, "shard", "2.3-2.5"),
    Owner("torch/distributed/pipelining/", ANY, "pipeline", "2.4-2.13"),
    Owner("torch/distributed/tensor/", ANY, "tensor", "2.5-2.13"),
    Owner("torch/distributed/_tensor/", ANY, "tensor", "2.1-2.4"),
    Owner("torch/distributed/optim/zero_redundancy_optimizer.py", ANY, "data", "run 2.13; 2.1-2.13"),
    Owner("torch/nn/parallel/distributed.py", ANY, "data", "run 2.13; 2.1-2.13"),
    Owner("context_parallel", ANY, "context", "Transformer Engine 1-2"),
)  # fmt: skip
"""Innermost first: a tensor-parallel operation inside of DDP's forward belongs to the tensor group."""
