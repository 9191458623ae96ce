"""Every parser of what users write or download, with inputs that it reads."""

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tests.golden.llm.test_files import write_gguf
from tests.support.fuzz import Target
from tests.synth.test_liberty_reader import HEAD, INVERTER, NAND
from tilewright.golden.anda_machine.isa import assemble as assemble_anda
from tilewright.golden.deca.packed import PackedModel
from tilewright.golden.deca.scheme import resolve_scheme
from tilewright.golden.harmonia_machine.isa import assemble as assemble_harmonia
from tilewright.golden.llm.gguf_file import read_gguf
from tilewright.golden.llm.tiny import tiny_model
from tilewright.golden.params.resolve import resolve
from tilewright.golden.tensorfile import TensorFile
from tilewright.sim.models import resolve_model
from tilewright.sim.own_accelerator import read_accelerator
from tilewright.sim.scheme import resolve_kv_format, resolve_weight_scheme
from tilewright.sim.sweep import parse_axis
from tilewright.sim.system import parse_settings, read_server
from tilewright.studies.packing import pack_model
from tilewright.studies.sweeps.sweep import parse_axis as parse_block_axis
from tilewright.synth.function import parse_function
from tilewright.synth.liberty_reader import read_liberty

ROOT = Path(__file__).parents[2]
HEAD_BYTES = 8000
# A folder in memory, where there is one: to write a file of each input to a disk takes twenty times
# as long as to parse it.
MEMORY = Path("/dev/shm")
CONFIG = b"""{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
 "max_position_embeddings": 512, "tie_word_embeddings": true, "rms_norm_eps": 1e-5}"""
EXPERTS = b"""{"model_type": "mixtral", "hidden_size": 256, "intermediate_size": 512,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
 "max_position_embeddings": 512, "num_local_experts": 8, "num_experts_per_tok": 2}"""
SERVER = b"""based_on = "spr-ddr"
cores = { value = 86, source = "a guess" }
bandwidth = "200 GB/s"
clock = "2 GHz"
"""


def of_text(parse: Callable[[str], object], *seeds: str) -> tuple[Callable, tuple[bytes, ...]]:
    """A parser of text, as a shell hands it over."""
    return lambda content: parse(content.decode(errors="surrogateescape")), _bytes(seeds)


def of_file(
    parse: Callable[[Path], object], suffix: str, *seeds: bytes | str
) -> tuple[Callable, tuple[bytes, ...]]:
    """A parser of a file that it gets the path of."""
    path = _folder() / f"input{suffix}"

    def of_content(content: bytes) -> object:
        path.write_bytes(content)
        return parse(path)

    return of_content, _bytes(seeds)


def _bytes(seeds: tuple[bytes | str, ...]) -> tuple[bytes, ...]:
    return tuple(seed.encode() if isinstance(seed, str) else seed for seed in seeds)


@cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    place = MEMORY if os.access(MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="tilewright-fuzz-", dir=place)


def _folder() -> Path:
    return Path(_kept().name)


def _closed(parse: Callable[[Path], object]) -> Callable[[Path], None]:
    def opened(path: Path) -> None:
        with parse(path) as file:  # type: ignore[attr-defined]
            for name in getattr(file, "entries", ()):
                file.read(name)

    return opened


def _unpacked(path: Path) -> None:
    with PackedModel(path) as model:
        for name, tensor in model.tensors.items():
            if tensor.scheme is not None:
                list(model.bands(name))


def _safetensors() -> bytes:
    path = _folder() / "seed.safetensors"
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(4, np.int8)}
    save_file(tensors, path, {"about": "a seed"})
    return path.read_bytes()


def _packed() -> bytes:
    source, path = _folder() / "model.safetensors", _folder() / "seed.packed"
    save_file({"w": np.random.default_rng(1).normal(0, 1, (32, 32)).astype(np.float32)}, source)
    pack_model(str(source), "nf4", path, density=0.5)
    return path.read_bytes()


def _gguf() -> bytes:
    path = write_gguf(_folder() / "seed.gguf", tiny_model("llama"))
    return path.read_bytes()


def _accelerator() -> str:
    designs = ROOT / "examples" / "own_designs"
    (_folder() / "mx_pe.json").write_text((designs / "mx_pe.json").read_text())
    return (designs / "mx_accelerator.toml").read_text()


def _example(name: str) -> str:
    return (ROOT / "docs" / "examples" / name).read_text()


MAKERS: dict[str, Callable[[], tuple[Callable, tuple[bytes, ...]]]] = {
    "block specification": lambda: of_text(
        resolve, "float_mul:fp16,latency=2", "deca:paper,lanes=16", "queue:tiny,depth=4,width=8"
    ),
    "DECA scheme": lambda: of_text(resolve_scheme, "nf4", "mxfp4", "bf8", "int8_tile"),
    "weight scheme": lambda: of_text(resolve_weight_scheme, "nf4_50%", "mxfp4", "bf16", "int4"),
    "cache format": lambda: of_text(resolve_kv_format, "bf16", "int8", "harmonia"),
    "server settings": lambda: of_text(parse_settings, "cores=86,clock=2.0GHz"),
    "sweep axis": lambda: of_text(
        parse_axis, "batch=1..64*2", "context=0..64+8", "bandwidth=400GB/s,800GB/s"
    ),
    "block axis": lambda: of_text(parse_block_axis, "lanes=1..8", "style=a,b"),
    "Liberty function": lambda: of_text(parse_function, "!(A B)", "(A + B)' ^ C", "A*B|!C"),
    "Anda assembly": lambda: of_text(assemble_anda, _example("anda-norm.s")),
    "Harmonia assembly": lambda: of_text(assemble_harmonia, _example("harmonia-attention.s")),
    "config.json": lambda: of_file(lambda p: resolve_model(str(p)), ".json", CONFIG, EXPERTS),
    "server": lambda: of_file(read_server, ".toml", SERVER),
    "accelerator": lambda: of_file(read_accelerator, ".toml", _accelerator()),
    "Liberty": lambda: of_file(
        lambda path: read_liberty([path]), ".lib", HEAD + INVERTER + NAND + "}"
    ),
    "safetensors": lambda: of_file(_closed(TensorFile), ".safetensors", _safetensors()),
    "packed model": lambda: of_file(_unpacked, ".safetensors", _packed()),
    "GGUF": lambda: of_file(lambda path: read_gguf(path, lazy=True), ".gguf", _gguf()),
}
NAMES = tuple(MAKERS)


@cache
def target(name: str) -> Target:
    """The target of this name, with its seeds made."""
    parse, seeds = MAKERS[name]()
    # Names, shapes and offsets of tensors come first, and their values are any bytes.
    heads = tuple(seed[:HEAD_BYTES] for seed in seeds)
    return Target(name, parse, heads, seeds[0][HEAD_BYTES:])
