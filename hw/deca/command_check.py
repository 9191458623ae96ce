"""Errors of a tile command that show before any byte is fetched."""

from collections.abc import Sequence

from amaranth import Module, Mux, Signal, Value
from amaranth.lib import data

from tilewright.golden.params.deca import (
    CODE_BITS,
    ERROR_BITS,
    TILE_BYTES,
    DecaParams,
    ScaleKind,
    TileError,
)

MAX_GROUP_LOG2 = (TILE_BYTES // 2 - 1).bit_length()  # a group is at most a bf16 tile


def check_command(m: Module, p: DecaParams, command: data.View) -> Signal:
    """The ``TileError`` that a command's configuration and lengths give."""
    config = command.config
    error = Signal(ERROR_BITS, init=TileError.OK)
    scaled = config.scale != ScaleKind.NONE.code
    # 64 lanes with a bf16 scale each need more than the line that the scale queue gives a cycle.
    smallest_group_log2 = (2 * p.lanes // p.line_bytes).bit_length() - 1
    too_many = (
        (config.scale == ScaleKind.BF16.code) & (config.group_log2 < smallest_group_log2)
        if smallest_group_log2 > 0
        else 0
    )
    bad_format = (
        ~_any_of(config.code_bits, CODE_BITS)
        | (config.scale >= len(ScaleKind))
        | (config.group_log2 > MAX_GROUP_LOG2)
        | (config.int8 & (scaled | (config.code_bits == 16)))
        | too_many
    )
    mask_length = Mux(config.sparse, Mux(config.int8, TILE_BYTES // 8, TILE_BYTES // 16), 0)
    scale_length = Mux(
        scaled,
        Mux(config.scale == ScaleKind.BF16.code, TILE_BYTES, TILE_BYTES // 2) >> config.group_log2,
        0,
    )
    dense_length = Mux(
        config.int8, config.code_bits * (TILE_BYTES // 8), config.code_bits * (TILE_BYTES // 16)
    )
    with m.If(bad_format):
        m.d.comb += error.eq(TileError.FORMAT)
    with m.Elif(command.mask_length != mask_length):
        m.d.comb += error.eq(TileError.MASK_LENGTH)
    with m.Elif(command.scale_length != scale_length):
        m.d.comb += error.eq(TileError.SCALE_LENGTH)
    with m.Elif(
        Mux(config.sparse, command.data_length > dense_length, command.data_length != dense_length)
    ):
        m.d.comb += error.eq(TileError.DATA_LENGTH)
    return error


def _any_of(value: Value, choices: Sequence[int]) -> Value:
    hit = value == choices[0]
    for choice in choices[1:]:
        hit |= value == choice
    return hit
