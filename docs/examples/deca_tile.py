"""One tile through DECA in Amaranth's simulator: table, command, result, rows."""

import numpy as np
from amaranth.sim import Simulator

from tilewright.golden.deca import compress, decompress_tiles, lay_out, resolve_scheme
from tilewright.golden.params.deca import TILE_ROWS, DecaParams, Register, TileError
from tilewright.hw.deca.pe import DecaPE

weights = np.random.default_rng(1).normal(size=(16, 32)).astype(np.float32)  # one tile
matrix = compress(weights, resolve_scheme("mxfp4"), density=0.5)
config, table = matrix.scheme.config, matrix.scheme.lut_image().tolist()
image = lay_out(matrix.tiles, base=0x4000)
command = {name: int(column[0]) for name, column in image.commands.items()}

pe = DecaPE(DecaParams.preset("small"))
rows = []


async def memory(context):
    """Answers every line the cycle after its request."""
    context.set(pe.mem_request.ready, 1)
    request = pe.mem_request
    while True:
        _, _, asked, line = await context.tick().sample(request.valid, request.payload)
        context.set(pe.mem_response.valid, asked & ~line.prefetch)
        start = 64 * line.line - image.base
        data = int.from_bytes(image.content[start : start + 64].tobytes(), "little")
        context.set(pe.mem_response.p, {"tag": line.tag, "error": 0, "data": data})


async def send(context, stream, **fields):
    context.set(stream.p, fields)
    context.set(stream.valid, 1)
    await context.tick().until(stream.ready)
    context.set(stream.valid, 0)


async def receive(context, stream):
    context.set(stream.ready, 1)
    (word,) = await context.tick().sample(stream.payload).until(stream.valid)
    context.set(stream.ready, 0)
    return word


async def write(context, address, value):
    await send(context, pe.mmio_request, address=address, write=1, data=value)
    assert not (await receive(context, pe.mmio_response)).error


async def core(context):
    for k, entry in enumerate(table):
        await write(context, Register.LUT + 8 * k, entry)
    await write(context, Register.CONFIG, config.encode())
    await send(context, pe.command0, **command)
    assert (await receive(context, pe.done0)).error == TileError.OK
    for row in range(TILE_ROWS):
        await send(context, pe.read_request, tout=0, row=row)
        answer = await receive(context, pe.read_response)
        assert answer.full
        rows.append(answer.data.to_bytes(64, "little"))


simulator = Simulator(pe)
simulator.add_clock(1e-9)
simulator.add_testbench(memory, background=True)
simulator.add_testbench(core)
simulator.run()

golden = decompress_tiles(np.array(table), matrix.tiles)
assert b"".join(rows) == golden.astype("<u2").tobytes()
