"""The sections of DECA's page, one module each; ``pages/deca.py`` puts them together."""

from tilewright.golden.params.deca import DecaParams

__all__ = ["PAPER_PARTS", "PRESETS"]

PRESETS = {preset: DecaParams.preset(preset) for preset in DecaParams.PRESETS}
# Modules of the PE by the paper's division of area and power; everything else is its "rest".
PAPER_PARTS = {
    "buffers": r"tout\d|loader\d\.(load_unit|\w+_queue)",
    "lut": r"pipeline\.lut",
}
