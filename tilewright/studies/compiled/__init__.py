"""Language models compiled for an accelerator: memory image, programs, and runs of both."""

from tilewright.studies.compiled.compiling import CompiledModel, compile_model, compiled_folder
from tilewright.studies.compiled.folder import ModelFolder, open_folder
from tilewright.studies.compiled.generating import Generation, generate
from tilewright.studies.compiled.runner import Runner
from tilewright.studies.compiled.session import Session

__all__ = [
    "CompiledModel",
    "Generation",
    "ModelFolder",
    "Runner",
    "Session",
    "compile_model",
    "compiled_folder",
    "generate",
    "open_folder",
]
