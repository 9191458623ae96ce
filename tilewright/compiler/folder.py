"""The folder of a compiled model: its files, and whether they are as they were written.

image.bin       external memory: constants, room for a program, and zeros where state will lie
manifest.json   shapes, formats, lines and hashes
tokenizer.json  null for a model without one
listing.txt     a first step, a decode step and the head, as assembly text
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.base.errors import CommandError
from tilewright.compiler.image import Lines
from tilewright.compiler.machine import Machine, machine_of
from tilewright.compiler.plan import Plan
from tilewright.golden.llm.model import Chat
from tilewright.golden.llm.tokenizer import Tokenizer, tokenizer_of
from tilewright.golden.params.llm import LlmShape
from tilewright.golden.params.machine import MachineParams
from tilewright.golden.params.resolve import resolve
from tilewright.golden.params.vector import Operation

FORMAT = 5  # of the manifest
IMAGE, MANIFEST = "image.bin", "manifest.json"
TOKENIZER, LISTING = "tokenizer.json", "listing.txt"
_AGAIN = "compile the model again"


def sha256(data: Any) -> str:
    """The hash of bytes or of an array's memory."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """The hash of a file, which is not read as a whole."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def instruction_set(machine: Machine) -> str:
    """The hash of all opcodes, fields and operations: the image has to suit the programs."""
    fields = {
        opcode.name: [int(opcode), *((f.name, f.bits) for f in of_opcode)]
        for opcode, of_opcode in machine.instruction.FIELDS.items()
    }
    operations = {operation.name: int(operation) for operation in Operation}
    return sha256(json.dumps([fields, operations]).encode())


def machine_for(target: str, mantissas: Mapping[str, int] | None = None) -> Machine:
    """The machine that a target names; ``mantissas`` by module, where a model may choose."""
    machine = machine_of(cast(MachineParams, resolve(target)))
    return machine.with_mantissas(mantissas) if mantissas else machine


@dataclass(frozen=True, eq=False)
class ModelFolder:
    """A compiled model whose files agree with its manifest."""

    path: Path
    manifest: dict[str, Any]

    @cached_property
    def plan(self) -> Plan:
        m = self.manifest
        return Plan(
            machine=machine_for(m["target"], m["formats"].get("mantissas")),
            shape=LlmShape(**m["shape"]),
            context=m["context"],
            sequences=m["sequences"],
            weight_bits=m["weight_bits"],
            head_bits=m["head_bits"],
        )

    @cached_property
    def lines(self) -> Lines:
        return Lines(self.plan, self.manifest["program_lines"])

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        return tokenizer_of(json.loads((self.path / TOKENIZER).read_text()))

    @property
    def start(self) -> int | None:
        """The token that every text begins with, if the model's files say so."""
        token: int | None = self.manifest.get("start")
        return token

    @cached_property
    def chat(self) -> Chat:
        """How an answer ends and a conversation is laid out, as far as the model's files say."""
        return Chat.of(self.manifest.get("chat"))

    def memory(self) -> NDArray[np.uint8]:
        """External memory at the start; changes stay in this process."""
        return np.memmap(self.path / IMAGE, np.uint8, mode="c")

    def check(self) -> None:
        """Refuse an image that differs from its hashes, with the name of the part that differs."""
        size, memory = self.manifest["line_bytes"], self.memory()
        if not any(t["name"].partition(".")[0] == "embedding" for t in self.manifest["tensors"]):
            raise CommandError(f"{self.path / IMAGE} has no table of embeddings; {_AGAIN}")
        for tensor in self.manifest["tensors"]:
            start = tensor["line"] * size
            if sha256(memory[start : start + tensor["bytes"]]) != tensor["sha256"]:
                raise CommandError(
                    f"{self.path / IMAGE}: {tensor['name']} differs from its hash in {MANIFEST};"
                    f" {_AGAIN}"
                )
        for name, digest in self.manifest["files"].items():
            if sha256_of_file(self.path / name) != digest:
                raise CommandError(
                    f"{self.path / name} differs from its hash in {MANIFEST}; {_AGAIN}"
                )


def open_folder(path: Path, *, target: str | None = None, check: bool = True) -> ModelFolder:
    """Open a compiled model; with ``check`` every byte is compared with its hash.

    ``target`` is the accelerator it is to run on, refused if the model was compiled for another.
    """
    file = path / MANIFEST
    if not file.is_file():
        raise CommandError(f"{path} has no {MANIFEST}: tilewright compile MODEL -o {path} makes it")
    try:
        manifest = json.loads(file.read_text())
        version, block = manifest["format"], manifest["block"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError):
        raise CommandError(f"{file} is no manifest; {_AGAIN}") from None
    if version != FORMAT:
        raise CommandError(f"{file} has format {version}, not {FORMAT}; {_AGAIN}")
    folder = ModelFolder(path, manifest)
    if manifest.get("instruction_set") != instruction_set(machine_for(manifest["target"])):
        raise CommandError(f"{path} is an image for another instruction set; {_AGAIN}")
    if target is not None and resolve(target).slug != block:
        raise CommandError(
            f"{path} is an image for {block}, not for {resolve(target).slug}; compile the model"
            f" with --target {target}"
        )
    if not (path / IMAGE).is_file():
        raise CommandError(f"{path} has no {IMAGE}; {_AGAIN}")
    size, want = (path / IMAGE).stat().st_size, folder.lines.end * manifest["line_bytes"]
    if size != want:
        raise CommandError(f"{path / IMAGE} has {size} bytes, not {want}: it is cut off; {_AGAIN}")
    if check:
        folder.check()
    return folder
