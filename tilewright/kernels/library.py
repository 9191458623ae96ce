"""The compiled library through ctypes: structures, functions, and which paths can be used here."""

import ctypes
import mmap
import os
import sys
from ctypes import POINTER, Structure, c_double, c_float, c_int32, c_int64, c_void_p
from enum import IntEnum
from functools import cache
from pathlib import Path as FilePath

import numpy as np
from numpy.typing import NDArray

from tilewright.base.cores import available_cores
from tilewright.kernels.build import build

MAX_THREADS = 1000  # kMaxThreads in src/kernels.h


class Path(IntEnum):
    """Sets of instructions, each with all those before it."""

    PORTABLE = 0
    AVX512 = 1
    AMX = 2


class CWeights(Structure):
    _fields_ = [
        *((name, c_int32) for name in ("element", "sparse")),
        *((name, c_int64) for name in ("outputs", "inputs", "strips", "tiles")),
        *((name, c_void_p) for name in ("metadata", "values", "strip_starts", "segment_starts")),
        ("weight_sums", c_void_p),
    ]


class CDecaWeights(Structure):
    _fields_ = [
        *((n, c_int32) for n in ("code_bits", "sparse", "scale_kind", "group", "plain_scales")),
        *((name, c_int64) for name in ("outputs", "inputs", "strips", "tiles")),
        *((name, c_void_p) for name in ("masks", "scales", "data", "data_starts", "lut")),
    ]


class CCodedWeights(Structure):
    _fields_ = [
        *((n, c_int32) for n in ("code_bits", "sparse", "scale", "low_mask", "plain_scales")),
        *((name, c_int64) for name in ("outputs", "inputs", "strips", "tiles")),
        *((name, c_void_p) for name in ("stream", "segment_starts", "table")),
        ("tensor_scale", c_float),
    ]


class CCoder(Structure):
    """How a scheme quantises, as ``src/codes.cpp`` declares it."""

    _fields_ = [
        *((name, c_int32) for name in ("scale", "group", "sparse", "reach_exponent")),
        ("reach", c_double),
        *((name, c_void_p) for name in ("threshold", "upper", "lower")),
    ]


class CProduct(Structure):
    """One GEMM: weights, activations, results and their pitches."""

    _fields_ = [
        ("weights", POINTER(CWeights)),
        ("deca", POINTER(CDecaWeights)),
        ("x", c_void_p),
        ("batch", c_int64),
        ("x_pitch", c_int64),
        ("y", c_void_p),
        ("y_pitch", c_int64),
        ("bias", c_void_p),
        ("scales", c_void_p),
        ("y_bf16", c_int32),
        ("gated", c_int32),
        ("x_steps", c_void_p),  # these two are set by the library
        ("halves", c_void_p),
        ("coded", POINTER(CCodedWeights)),
    ]


class CAttention(Structure):
    """Attention for one token, as ``src/attention.cpp`` declares it."""

    _fields_ = [
        *((name, c_void_p) for name in ("keys", "values", "tail_keys", "tail_values")),
        *((name, c_int64) for name in ("heads", "rows", "dim", "tokens", "tail_tokens")),
        ("queries", c_void_p),
        ("out", c_void_p),
        *((name, c_int32) for name in ("out_bf16", "threads", "path")),
    ]


class CStep(Structure):
    """One token of a decoder layer, as ``src/step.cpp`` declares it."""

    _fields_ = [
        ("layers", CProduct * 4),  # queries, keys and values; output; gates and values; down
        ("bounds", c_void_p * 4),
        ("orders", c_int32 * 4),
        *((name, c_int32) for name in ("threads", "path")),
        *((name, c_int64) for name in ("rows", "width")),
        *((name, c_void_p) for name in ("hidden", "first_norm", "second_norm")),
        *((name, c_float) for name in ("first_epsilon", "second_epsilon")),
        *((name, c_void_p) for name in ("cosines", "sines")),
        *((name, c_int64) for name in ("queries", "keys", "dim")),
        *((name, c_void_p) for name in ("key_room", "value_room")),
        *((name, c_int64) for name in ("room", "position")),
        *((name, c_void_p) for name in ("joined", "mixed", "result", "spent")),
        ("scale", c_double),
    ]


class CToken(Structure):
    """One token through all decoder layers, as ``src/step.cpp`` declares it."""

    _fields_ = [
        ("steps", c_void_p),
        ("count", c_int64),
        *((name, c_void_p) for name in ("hidden", "cosines", "sines", "result")),
        ("position", c_int64),
        ("spent", c_void_p),
    ]


class CCall(Structure):
    """The work of one call of the library, and its threads."""

    _fields_ = [
        ("products", c_void_p),
        ("count", c_int64),
        ("bounds", c_void_p),
        *((name, c_int32) for name in ("threads", "path", "order")),
    ]


_SIGNATURES = {
    "tw_paths": (c_int32, []),
    "tw_join_openmp": (c_int32, []),
    "tw_multiply": (None, [c_void_p]),
    "tw_attend": (None, [c_void_p]),
    "tw_pack": (
        c_int64,
        [c_int32, c_int32, c_int32, c_void_p, *[c_int64] * 5, *[c_void_p] * 4, c_int32],
    ),
    "tw_set_many_rows": (None, [c_int64]),
    "tw_set_pair_bytes": (None, [c_int64]),
    "tw_prune": (None, [c_void_p, c_int64, c_int64, c_int32]),
    "tw_quantise": (None, [c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int32]),
    "tw_code": (c_int32, [POINTER(CCoder), c_void_p, c_int64, c_int64, *[c_void_p] * 5, c_int32]),
    "tw_pack_codes": (None, [*[c_void_p] * 2, c_int64, c_int32, *[c_void_p] * 2, c_int32]),
    "tw_pack_records": (None, [*[c_void_p] * 4, c_int64, c_int64, *[c_void_p] * 2, c_int32]),
    "tw_count_segments": (None, [c_void_p, *[c_int64] * 4, c_void_p, c_int32]),
    "tw_sum_weights": (None, [*[c_void_p] * 3, c_int64, c_int64, c_void_p, c_int32]),
    "tw_norm": (None, [*[c_void_p] * 3, c_int64, c_int64, c_float, c_int32]),
    "tw_rotate": (
        None,
        [*[c_void_p] * 3, *[c_int64] * 6, *[c_void_p] * 2, *[c_int64] * 2, c_int32],
    ),
    "tw_add": (None, [*[c_void_p] * 3, c_int64, c_int32]),
    "tw_step_in": (None, [c_void_p]),
    "tw_step_out": (None, [c_void_p]),
    "tw_token": (None, [c_void_p]),
    "tw_set_fetch_bytes": (None, [c_int64]),
    "tw_read": (c_int64, [c_void_p, c_int64, c_int32]),
    "tw_operations": (c_int64, [c_int32, c_int64, c_int32]),
}


@cache
def library() -> ctypes.CDLL:
    """The library, compiled if need be; ``$TILEWRIGHT_KERNEL_FLAGS`` adds compiler flags."""
    flags = os.environ.get("TILEWRIGHT_KERNEL_FLAGS", "").split()
    loaded = ctypes.CDLL(str(build(*flags)))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


@cache
def available_paths() -> tuple[Path, ...]:
    """Paths that this processor and this process can run, the best one last."""
    found = library().tw_paths()
    return tuple(path for path in Path if found >> path & 1)


def checked_path(path: Path | None) -> Path:
    """``path``, by default the best; refused where it cannot run."""
    if path is None:
        return available_paths()[-1]
    if path not in available_paths():
        raise ValueError(f"path {path.name} cannot run here: no such instructions")
    return path


def shares_pool() -> bool:
    """Whether kernels run on the threads of PyTorch, which they do once that is loaded.

    Two pools of threads in one process would take the processors from each other.
    """
    return _joined("torch._C" in sys.modules)


@cache
def _joined(torch_is_loaded: bool) -> bool:
    return torch_is_loaded and bool(library().tw_join_openmp())


def default_threads() -> int:
    """The number that PyTorch uses, where it is loaded; else one per processor of this process."""
    if shares_pool():
        return int(sys.modules["torch"].get_num_threads())
    return processors()


@cache
def processors() -> int:
    """Processors that the process may run on and, in a control group, that it may keep busy."""
    return max(1, min(available_cores(), *(int(quota) for quota in _quotas())))


def has_room(threads: int) -> bool:
    """Whether each of these threads has a processor that the process may use now."""
    return threads <= min(processors(), available_cores())


def _quotas() -> list[float]:
    """Limits of the control groups that this process is in, in processors."""
    try:
        lines = FilePath("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return [float(MAX_THREADS)]
    group = next((line[3:] for line in lines if line.startswith("0::")), "/")
    folder = FilePath("/sys/fs/cgroup") / group.lstrip("/")
    found = [float(MAX_THREADS)]
    for level in (folder, *folder.parents):
        try:
            quota, period = (level / "cpu.max").read_text().split()
            found.append(float(quota) / float(period))
        except (OSError, ValueError):
            pass  # not a control group, or "max": no limit
    return found


def checked_threads(threads: int | None) -> int:
    """The number of threads to use, all if None; one out of range is refused."""
    shares_pool()
    if threads is None:
        return default_threads()
    if not isinstance(threads, int) or not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads must be 1..{MAX_THREADS}, not {threads!r}")
    return threads


HUGE_PAGE = 2 << 20  # bytes, on x86-64 and most of AArch64
SLACK = 64  # bytes that a kernel may read past the last one


def weight_bytes(count: int) -> NDArray[np.uint8]:
    """``count`` zero bytes, followed by ``SLACK`` readable ones.

    Large arrays begin on a 2 MiB boundary and ask for pages of that size: a stream of weights
    then needs one address translation where it would need 512.
    """
    if count < HUGE_PAGE:
        raw = np.zeros(count + SLACK + 64, np.uint8)
        start = -raw.__array_interface__["data"][0] % 64
        return raw[start : start + count]
    length = -(-(count + SLACK) // HUGE_PAGE) * HUGE_PAGE + HUGE_PAGE
    area = mmap.mmap(-1, length)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        area.madvise(mmap.MADV_HUGEPAGE)
    raw = np.frombuffer(area, np.uint8)
    start = -raw.__array_interface__["data"][0] % HUGE_PAGE
    return raw[start : start + count]


def as_weight_bytes(array: NDArray) -> NDArray:
    """A copy of ``array`` in such memory, of the same type and shape."""
    content = np.ascontiguousarray(array)
    room = weight_bytes(content.nbytes)
    copy = room.view(content.dtype).reshape(content.shape)
    copy[...] = content
    return copy


def with_slack(array: NDArray) -> NDArray[np.uint8]:
    """The bytes of an array of :func:`weight_bytes`, and the readable ones after them."""
    flat = array.reshape(-1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(flat, (len(flat) + SLACK,), (1,))


def address(array: NDArray) -> int:
    return array.ctypes.data
