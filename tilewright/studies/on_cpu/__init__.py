"""Language models on a CPU whose weight tiles a DECA decompresses, and what their text costs."""

from tilewright.studies.on_cpu.session import CpuGeneration, CpuOptions, CpuSession, RtlTiles
from tilewright.studies.on_cpu.tiles import MatrixTiles

__all__ = ["CpuGeneration", "CpuOptions", "CpuSession", "MatrixTiles", "RtlTiles"]
