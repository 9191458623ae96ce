"""The array on streams of loads and sums: its tiles and their cycles."""

import numpy as np
from numpy.typing import NDArray

from tilewright.golden.arith import convert
from tilewright.golden.harmonia import pe
from tilewright.golden.params.formats import FP16, FP32
from tilewright.golden.params.harmonia import HarmoniaArrayParams
from tilewright.golden.payload import Columns


def results(params: HarmoniaArrayParams, loads: Columns, sums: Columns) -> NDArray[np.uint16]:
    """fp16 patterns (beats of ``o``, rows): tile after tile, column after column.

    All loads are done before the first sum.
    """
    tiles = int(sums["last"].sum())
    given = np.empty((tiles, params.columns, params.rows), np.uint16)
    for column in range(params.columns):
        mine = loads["column"] == column
        memory = {
            field.name: np.zeros((params.words, *([field.count] if field.count else [])), np.int64)
            for field in params.operand_fields
        }
        for name, words in memory.items():
            words[loads["address"][mine]] = loads[name][mine]  # of equal addresses the last wins
        operands = {name: words[sums["address"]] for name, words in memory.items()}
        for row in range(params.rows):
            lanes = slice(row * params.group, (row + 1) * params.group)
            beats = {
                "mode": sums["mode"],
                "first": sums["first"],
                "last": sums["last"],
                "a_signs": sums["a_signs"][:, lanes],
                "a": sums["a"][:, lanes],
                "b_signs": operands["b_signs"],
                "b": operands["b"],
                "a_exponents": sums["a_exponents"][:, row : row + 1],
                "b_exponents": operands["b_exponent"][:, np.newaxis],
                "scale": operands["scale"],
            }
            totals = pe.results(params.pe, beats)
            given[:, column, row] = convert(FP32, FP16, totals)
    return given.reshape(-1, params.rows)


def cycles(params: HarmoniaArrayParams, sums: Columns) -> NDArray[np.int64]:
    """Cycle of every output beat, counted from the first sum, if nobody ever waits.

    A tile leaves column by column, so the last sums of two tiles are at least ``tile_apart`` cycles
    apart; a shorter tile's last sum waits.
    """
    taken, offered = -params.beat_cycles, []
    earliest = 0
    for last in sums["last"].astype(bool):
        taken += params.beat_cycles
        if last:
            taken = max(taken, earliest)
            earliest = taken + params.tile_apart
            offered.append(taken + params.latency + np.arange(params.columns))
    return np.concatenate([np.zeros(0, np.int64), *offered])
