"""Milliseconds of one MLP of Llama 3 8B as the only expert of kt-kernel's AMX experts.

python kt_mlp.py FOLDER TYPE BATCH, where FOLDER holds kt-kernel's extension for AMX and TYPE is
int8, int4 or bf16. Random weights; several such experts take turns, so that none stays in a cache.
"""

import importlib.util
import statistics
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

DIM, INNER, COPIES, PASSES, THREADS = 4096, 14336, 6, 20, 16
CLASSES = {"int8": "AMXInt8_MOE", "int4": "AMXInt4_MOE", "bf16": "AMXBF16_MOE"}


def extension(folder: Path) -> Any:
    """The compiled module, without the package around it, which wants more than there is."""
    (file,) = folder.glob("kt_kernel/_kt_kernel_ext_amx*.so")
    spec = importlib.util.spec_from_file_location("kt_kernel_ext", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(folder: str, kind: str, batch: int) -> None:
    """Load, warm up, and time."""
    kt = extension(Path(folder))
    pool = kt.WorkerPoolConfig()
    pool.subpool_count, pool.subpool_numa_map, pool.subpool_thread_count = 1, [0], [THREADS]
    infer = kt.CPUInfer(pool)
    few = 0.02 * torch.randn(256, DIM)
    gate = few.repeat(INNER // 256, 1).to(torch.bfloat16).contiguous()
    down = gate.view(DIM, INNER).contiguous()
    order = torch.zeros(1, dtype=torch.int64)
    on_gpu = torch.zeros(1, dtype=torch.bool)  # none of the experts
    experts = []
    for _ in range(COPIES):
        config = kt.moe.MOEConfig(1, 1, DIM, INNER, on_gpu.data_ptr())
        config.layer_idx, config.max_len, config.pool = 0, 128, infer.backend_
        config.gate_proj = config.up_proj = gate.data_ptr()
        config.down_proj = down.data_ptr()
        expert = getattr(kt.moe, CLASSES[kind])(config)
        try:
            infer.submit(expert.load_weights_task(order.data_ptr()))
        except TypeError:
            infer.submit(expert.load_weights_task())
        infer.sync()
        experts.append(expert)
    rows = torch.tensor([batch], dtype=torch.int32)
    x, y = torch.randn(batch, DIM).to(torch.bfloat16), torch.empty(batch, DIM, dtype=torch.bfloat16)
    which, share = torch.zeros(batch, 1, dtype=torch.int64), torch.ones(batch, 1)
    pointers = [tensor.data_ptr() for tensor in (which, share, x, y)]
    times = []
    for i in range(8):
        start = perf_counter()
        for _ in range(PASSES):
            for expert in experts:
                infer.submit(expert.forward_task(rows.data_ptr(), 1, *pointers, False))
        infer.sync()  # looks only every few milliseconds whether all is done
        if i >= 2:
            times.append(1e3 * (perf_counter() - start) / (PASSES * COPIES))
    print(f"{statistics.median(times):.4f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
