"""Layouts of the data between the blocks of the processing element."""

from amaranth.lib import data

from tilewright.golden.params.deca import (
    CONFIG_FIELDS,
    ERROR_BITS,
    TILE_BYTES,
    TILE_ROWS,
    DecaParams,
)
from tilewright.hw.unit import field_shape

CONFIG = data.StructLayout({f.name: field_shape(f) for f in CONFIG_FIELDS})

# Data read from lines is aligned in two stages: to a word of this size in the loader, the rest of
# the way in the pipeline.
SHIFT_WORD_BITS = 64


def chunk_index_bits(p: DecaParams) -> int:
    """Numbers a chunk in its tile; int8 tiles have the most."""
    return (TILE_BYTES // p.lanes - 1).bit_length()


def scale_bits(p: DecaParams) -> int:
    """A chunk's scales: one per lane at the most, and never more than a line."""
    return min(16 * p.lanes, p.line_bits)


def command_layout(p: DecaParams) -> data.StructLayout:
    """A tile command with the configuration that was in force when it was given."""
    return data.StructLayout(
        {"config": CONFIG} | {f.name: field_shape(f) for f in p.command_fields}
    )


def window_layout(p: DecaParams) -> data.StructLayout:
    """One step of one vector operation, before its codes are read.

    A vector operation whose window exceeds the lookups of a cycle takes several steps; ``step``
    numbers them, ``last`` marks the one that completes the window.
    """
    return data.StructLayout(
        {
            "bits": range(p.line_bits + 1),  # of codes that this step reads
            "step": range(p.lanes),
            "last": 1,
            "final": 1,  # last step of the tile
            "chunk": chunk_index_bits(p),
            "rows": TILE_ROWS,  # of TOut that the chunk goes to, one bit per row
            "mask": data.ArrayLayout(1, p.lanes),
            "distance": data.ArrayLayout(range(p.lanes), p.lanes),  # clear mask bits below
            "error": 1,  # the bitmask had a bus error
        }
    )


def step_layout(p: DecaParams) -> data.StructLayout:
    """One step with its codes, as a loader hands it to the shared pipeline."""
    return data.StructLayout(
        {
            "config": CONFIG,
            "codes": p.line_bits + SHIFT_WORD_BITS,  # first code at bit ``offset``
            "offset": range(SHIFT_WORD_BITS),
            "scales": scale_bits(p) + SHIFT_WORD_BITS,  # first scale at byte ``scale_offset``
            "scale_offset": range(SHIFT_WORD_BITS // 8),
            "step": range(p.lanes),
            "last": 1,
            "final": 1,
            "chunk": chunk_index_bits(p),
            "mask": data.ArrayLayout(1, p.lanes),
            "distance": data.ArrayLayout(range(p.lanes), p.lanes),  # clear mask bits below
            "error": ERROR_BITS,  # TileError; not OK ends the tile
        }
    )
