"""The folder of a compiled model: what lies in it, and whether it is as it was written.

image.bin       external memory: weights, embeddings, programs, and zeros where state comes to lie
manifest.json   shapes, formats, lines, programs and hashes
tokenizer.json  null of a model without one
listing.txt     the first step, a decode step and the head, as assembly text
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.golden.anda_machine.block import Mantissas
from tilewright.golden.llm.tokenizer import Tokenizer
from tilewright.golden.llm.tokenizer_file import tokenizer_of
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.vector import Operation
from tilewright.studies.compiled.systems import System, system_of

__all__ = ["FORMAT", "ModelFolder", "instruction_set", "open_folder", "sha256", "sha256_of_file"]

FORMAT = 4  # of the manifest
IMAGE, MANIFEST = "image.bin", "manifest.json"
TOKENIZER, LISTING = "tokenizer.json", "listing.txt"


def sha256(data: Any) -> str:
    """The hash of bytes or of an array's memory, as the manifest has it."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """The same of a file, which is not read as a whole."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def instruction_set(system: System) -> str:
    """The hash of all opcodes, fields and operations: programs of another set mean nothing."""
    fields = {
        opcode.name: [int(opcode), *((f.name, f.bits) for f in declared)]
        for opcode, declared in system.fields.items()
    }
    operations = {operation.name: int(operation) for operation in Operation}
    return sha256(json.dumps([fields, operations]).encode())


@dataclass(frozen=True, eq=False)
class ModelFolder:
    """A compiled model whose files agree with its manifest."""

    path: Path
    manifest: dict[str, Any]

    @cached_property
    def system(self) -> System:
        return system_of(resolve(self.manifest["target"]))

    @cached_property
    def plan(self) -> Any:
        m = self.manifest
        own: dict[str, Any] = {}
        if "mantissas" in m:
            own["mantissas"] = Mantissas(**m["mantissas"])
        if "single_tokens" in m:
            own["single_tokens"] = m["single_tokens"]
        return self.system.plan(
            params=resolve(m["target"]),
            **own,
            config=LlmShape(**m["shape"]),
            context=m["context"],
            weight_bits=m["weight_bits"],
            head_bits=m["head_bits"],
        )

    @cached_property
    def lines(self) -> Any:
        return self.system.lines(self.plan, self.manifest["program_lines"])

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        return tokenizer_of(json.loads((self.path / TOKENIZER).read_text()))

    @property
    def start(self) -> int | None:
        """The token that every text begins with, if the model's files say so."""
        token: int | None = self.manifest.get("start")
        return token

    @cached_property
    def steps(self) -> dict[tuple[int, int], tuple[int, int]]:
        """(first token, tokens) of a step -> its program's first line and instructions."""
        return {
            (p["first"], p["tokens"]): (p["line"], p["instructions"])
            for p in self.manifest["steps"]
        }

    @cached_property
    def heads(self) -> list[tuple[int, int]]:
        """The same of the head's programs, by token tile of a step."""
        return [(p["line"], p["instructions"]) for p in self.manifest["heads"]]

    def memory(self) -> NDArray[np.uint8]:
        """External memory as it is at the start; changes stay in this process."""
        return np.memmap(self.path / IMAGE, np.uint8, mode="c")

    def check(self) -> None:
        """Refuse an image that differs from its hashes, by the name of what differs."""
        size, memory = self.plan.params.line_bytes, self.memory()
        if not any(t["name"].partition(".")[0] == "embedding" for t in self.manifest["tensors"]):
            raise CommandError(
                f"{self.path / IMAGE} has no table of embeddings; compile the model again"
            )
        for tensor in self.manifest["tensors"]:
            start = tensor["line"] * size
            if sha256(memory[start : start + tensor["bytes"]]) != tensor["sha256"]:
                raise CommandError(
                    f"{self.path / IMAGE}: {tensor['name']} differs from its hash in {MANIFEST};"
                    " compile the model again"
                )
        for name, digest in self.manifest["files"].items():
            if sha256_of_file(self.path / name) != digest:
                raise CommandError(
                    f"{self.path / name} differs from its hash in {MANIFEST}; compile the model"
                    " again"
                )


def open_folder(path: Path, *, target: str | None = None, check: bool = True) -> ModelFolder:
    """Open a compiled model; with ``check`` every byte is compared with its hash.

    ``target`` is the accelerator it is to run on, refused where the model is not for that one.
    """
    file = path / MANIFEST
    if not file.is_file():
        raise CommandError(f"{path} has no {MANIFEST}: tilewright compile MODEL -o {path} makes it")
    try:
        manifest = json.loads(file.read_text())
        version, block = manifest["format"], manifest["block"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        raise CommandError(f"{file} is no manifest; compile the model again") from None
    if version != FORMAT:
        raise CommandError(f"{file} has format {version}, not {FORMAT}; compile the model again")
    if manifest.get("instruction_set") != instruction_set(system_of(resolve(manifest["target"]))):
        raise CommandError(
            f"{path} has programs of another instruction set; compile the model again"
        )
    if target is not None and resolve(target).slug != block:
        raise CommandError(
            f"{path} has programs for {block}, not for {resolve(target).slug}; compile the model"
            f" with --target {target}"
        )
    folder = ModelFolder(path, manifest)
    if not (path / IMAGE).is_file():
        raise CommandError(f"{path} has no {IMAGE}; compile the model again")
    size, want = (path / IMAGE).stat().st_size, folder.lines.end * folder.plan.params.line_bytes
    if size != want:
        raise CommandError(
            f"{path / IMAGE} has {size} bytes, not {want}: it is cut off; compile the model again"
        )
    if check:
        folder.check()
    return folder
