"""Command lines that are refused: exit code 2, one line that names the cause, before any work."""

import pytest

from tests.cli.test_cli import run
from tests.support.tables import table_rows

REFUSALS = """
claims --classes --verdict off | --verdict does not go with --classes, which takes all verdicts
claims --paper andy | unknown paper 'andy'; did you mean anda?
claims --residuals --classes | argument --classes: not allowed with argument --residuals
claims --residuals --paper deca | --paper does not go with --residuals, which takes all claims
claims --verdict fine | unknown verdict 'fine'; known: holds, off, reversed
claims --verdict off --what-if deca.cycles=+20% | --verdict does not go with --what-if
claims --what-if deca.cycle=+20% | unknown measured input 'deca.cycle'; did you mean deca.cycles?
claims --what-if deca.cycles=-100% | --what-if 'deca.cycles=-100%': write it as deca.cycles=+20%
claims --what-if deca.cycles=20 | --what-if 'deca.cycles=20': write it as deca.cycles=+20%
compare pe --block queue | queue is not compared: its bench is no
compare pe --macs 3 | --macs goes with --with
compare pe --stale | --stale goes with --update-records
compare pe --update-records --block queue | queue is not compared: its bench is no
compare pe --with x.v | --with needs --top, --macs, --cycles, --format too
compare pe --x | unknown argument '--x'; see tilewright compare pe --help
export anda --registers --clock 800 --out out | --clock is of a block that goes to a --flow
export anda --registers --flow orfs --out out | one of --registers and --flow orfs|librelane
export anda_apu --flow librelane --tech asap7 --out out | librelane takes sky130hd, not
export anda_apu --out out | one of --registers and --flow orfs|librelane says what to export
export popcount --registers --out out | popcount has no registers; anda, harmonia and deca have
export popcount,width=9 --flow orfs --out out | popcount,width=9 has no synthesis record in as
fpga --bitstream no.bit | --bitstream goes with a BLOCK
fpga --path | --path goes with a BLOCK to place
fpga --seed 0 | --seed goes with a BLOCK to place
fpga popcount:odd --bitstream no.bit --path | --path goes without --bitstream
fpga popcount:odd --bitstream no.bit --device gatemate-a1 | bitstreams are made for ECP5 only, not f
fpga popcount:odd --bitstream no.bit --pins missing.lpf | missing.lpf:
fpga popcount:odd --path --json | --json has the path already
fpga popcount:odd --device gowin | gowin is not offered: nextpnr's times of a routed design
fpga popcount:odd --device virtex | no device 'virtex'; there are ecp5-25k, ecp5-45k,
fpga popcount:odd --pins board.lpf | --pins goes with --bitstream
fpga popcount:odd --seed 2 --update-records | records are of the default seed and
fpga popcount:odd --speed-grade 9 | ecp5-85k has the speed grades 6, 7, 8, not 9
gemm 1 0 2 | product: inner must be 1..2147483648, not 0
gemm 1 2 | give ROWS INNER OUTER
gemm 1 64 64 --block anda --latency 0 | latency must be 1..1048576, not 0
gemm 1 64 64 --block anda --scheme 7/7/6/5 | one GEMM has one mantissa length, not '7/7/6/5'
gemm 1 64 64 --block anda --system spr-hbm | block anda is the system
gemm 1 64 64 --block deca --engine software | block deca is the engine; leave 'software' out
gemm 1 64 64 --block harmonia --latency 99999999999999999999999 | latency must be 1..1048576, not 99
gemm 1 64 64 --block popcount | block must be anda, deca or harmonia, not popcount
gemm 1 64 64 --set cores=8,cores=9 | cores is set twice
gemm 1 64 64 --system anda --scheme 7/7/6/5 | one GEMM has one mantissa length, not '7/7/6/5'
gemm 2147483648 2147483648 2147483648 | product: 2147483648 x 2147483648 x 2147483648 is larger than
list float_mul:bf61 | unknown preset of float_mul 'bf61'; did you mean bf16
list float_mull | unknown block 'float_mull'; did you mean float_mul
list queue,dept=3 | unknown field of queue 'dept'; did you mean depth
list queue,depth | 'queue,depth': expected FIELD=VALUE, not 'depth'
list queue,depth=0 | depth must be at least 1, not 0
llm '' | give a MODEL; tilewright list models names those that are known
llm llama-2-71b | unknown model 'llama-2-71b'; did you mean llama-2-7b
llm m --batch y | argument --batch: invalid int value: 'y'; see tilewright llm
llm mixtral | unknown model 'mixtral'; did you mean mixtral-8x7b or mixtral-8x22b
llm mpt-7b | unknown model 'mpt-7b'; see tilewright list models
llm nowhere.json | nowhere.json: No such file or directory
llm opt-125m --batch -1 | batch must be 1..65536, not -1
llm opt-125m --batch 65536 --context 16777216 | a batch of 65536 sequences with 1099511627776 tokens
llm opt-125m --block deca --latency 3 | latency is that of block anda or harmonia; leave it out
llm opt-125m --block deca --system anda | block deca is beside the cores of a server, not in anda
llm opt-125m --block harmonia --latency 99999999999999999999999 | latency must be 1..1048576, not 99
llm opt-125m --context 0 | context must be 1..16777216 tokens, not 0
llm opt-125m --context 2x | contexts are SEQUENCESxTOKENS,..., such as
llm opt-125m --context 2x8 --batch 2 | a context like 8x128,2x4096 says how many sequences there are
llm opt-125m --context y | --context takes tokens, or 8x128,2x4096, not 'y'
llm opt-125m --csv --json | --csv does not go with --json
llm opt-125m --engine avx | unknown engine 'avx'; did you mean more-avx
llm opt-125m --on anda --memory ddr4 --set bandwidth=1GB/s | memory ddr4 has a bandwidth of its own
llm opt-125m --on harmonia --memory hbm3 | memory must be flat, hbm2, lpddr5, ddr4, not 'hbm3'
llm opt-125m --on spr-hbm --memory hbm2 | memory hbm2 is that of anda or harmonia
llm opt-125m --phase train | unknown phase 'train'; known: decode, prefill
llm opt-125m --plot x.svg | --plot goes with --sweep
llm opt-125m --prompt 9 --tokens 9 --context 9 | context does not go with prompt and tokens
llm opt-125m --prompt 9 | a prompt comes with tokens that follow it
llm opt-125m --scheme mxfp5 | unknown scheme 'mxfp5'; did you mean mxfp4
llm opt-125m --set clock | settings are FIELD=VALUE,..., such as cores=86,
llm opt-125m --set clock=2.0 | clock must be 1e+08 to 1e+10 Hz, not 2
llm opt-125m --set clock=2.0GB | unknown unit of clock 'GB'; known: Hz,
llm opt-125m --set coers=3 | unknown field of a server 'coers'; did you
llm opt-125m --set cores=1.5 | cores must be a whole number, not 1.5
llm opt-125m --sweep batch=1 --batch 2 | batch is both given and swept; give it once
llm opt-125m --sweep batch=1 --plot x.gif | a plot is a file ending in .svg, not 'x.gif'
llm opt-125m --sweep batch=1 --sweep batch=2 | --sweep names batch more than once
llm opt-125m --system anda --engine deca | anda has no engines; engines belong to servers
llm opt-125m --system anda --kv int8 | anda keeps keys and values in fp16; leave 'int8' out
llm opt-125m --system anda --scheme 17 | mantissa lengths must be 1..16, not 17
llm opt-125m --system anda --scheme 7/7 | scheme of anda must be a mantissa length or four, like 7/7
llm opt-125m --system anda --set cores=8 | unknown field of an accelerator 'cores'; known: clock, ba
llm opt-125m --system gnr | unknown system 'gnr'; did you mean gnr-mrdimm?
llm opt-125m --system harmonia --scheme 8 | harmonia has one scheme; leave it out
llm opt-125m --system no.toml | no.toml: No such file or directory
llm opt-125m --tokens 9 | tokens follow a prompt; say how long it is
llm opt-125m --within 9 --batch 2 | batch does not go with a bound
llm opt-125m --within nan | a bound must be above 0 ms, not nan
llm opt-66b --scheme bf16 --within 9 | opt-66b does not fit in spr-hb
layout --goal area | --goal goes with a BLOCK to lay out
layout --tech tsmc5 | unknown technology 'tsmc5'
layout popcount:odd --utilisation 1.5 | the utilisation must lie between 0.05 and 0.95, not 1.5
layout popcount:odd --clock 500 --update-records | --clock goes without --update-records
layout nothing | unknown block
pack synthetic:99999999x9 --scheme bf8 --density 0 -o p.safetensors | --density must be above 0
pack synthetic:99999999x99999999 --scheme bf8 -o p.safetensors | synthetic:99999999x99999999: a m
pack tiny-llama --scheme bf8 --density 1e-9 -o p.safetensors | --density 1e-09 leaves none of the
pack tiny-llama --scheme no.py:Mine -o p.safetensors | a format of your own is FILE.py:CLASS; there
roofsurface --block anda | block must be deca, not anda
roofsurface --explore --block deca | --block does not go with --explore, which takes every size
roofsurface --rows 0 | rows must be 1..1048576, not 0
roofsurface --system anda | anda is no server with a matrix unit
roofsurface --vectors 0 | vectors must be above 0, not 0.0
run tiny-llama --on harmonia:small --prompt Hi --group 0 | --group must be a multiple of
run tiny-llama --prompt Hi --seed -1 | --seed must be at least 0, not -1
run tiny-llama --prompt Hi --sequences 999999999 | sequences must be 1..65536, not 999999999
run tiny-llama --on harmonia:small --prompt Hi --temperature -5 | temperature must be at least 0
run tiny-llama --prompt Hi --temperature nan | temperature must be at least 0 and finite, not nan
run tiny-llama --prompt Hi --tokens 999 | a prompt of 2 tokens and 999 new ones need a context
run tiny-llama --prompt Hi --trace no/such.json | no: there is no such folder
run tiny-llama --prompt Hi --weights 5 | --weights must be 4, 8 or FILE.py:CLASS, not '5'
simulat | unknown command 'simulat'; did you mean simulate?
simulate popcount:odd --cases 999999999 | cases must be 1..10,000,000, not 999999999
simulate deca.gem | unknown workload 'deca.gem'; did you mean deca.gemm
sweep --frontier deca --tech sky130hd | frontier deca is of asap7, not sky130hd
sweep --frontier decca | unknown frontier 'decca'; did you mean deca?
sweep --update-records | --update-records goes with --frontier
sweep deca --vary lanes=8,9 | --vary lanes=9: lanes must be 8, 16, 32 or 64, not 9
sweep popcont --vary width=3 | unknown block 'popcont'; did you mean popcount
sweep popcount --vary widht=3 | unknown field of popcount 'widht'; did you mean width?
sweep prefix_sum --vary style=riple | --vary style=riple: style must be one of ripple, sklansky, kog
sweep queue --frontier deca | --frontier says itself what to vary, and how
sweep queue --vary depth=1 --clock 9 --goal area | --clock chooses the goal itself: leave out --goal
sweep queue --vary depth=1 --jobs 2 --dask tcp://x | --jobs is about this machine, not about --dask
sweep queue --vary depth=1 --jobs 0 | --jobs must be at least 1, not 0
sweep queue --vary depth=1 --simulate --cases 0 | --cases must be at least 1, not 0
sweep queue --vary depth=1 --tech asap8 | unknown technology 'asap8'
sweep queue --vary width=1 --vary width=2 | --vary names width more than once
sweep queue --vary width=a | --vary width=a: width must be a whole number, not 'a'
sweep queue | name one BLOCK and at least one --vary, or a --frontier
synth --check-technology x.lib | --check-technology needs --tech
synth --energy | --energy needs a BLOCK that is a DECA PE, such as deca:small
synth --system | --system needs one BLOCK
synth anda_mxu:small --system --goal area | --goal does not go with --system
synth anda_mxu:small --system --no-gating | --system does not go with --no-gating
synth popcount --all | name one BLOCK, or --all
synth popcount,width=999999999 | width must be at most 1048576, not 999999999
synth popcount --clock 0 | '0' is no clock: say 800 (ps), 0.8ns, 1250MHz or 1.25GHz
synth popcount --clock 400 --update-records | records are of the project's technologies, flattened,
synth popcount --clock nan | 'nan' is no clock: say 800 (ps), 0.8ns, 1250MHz or 1.25GHz
synth popcount --dont-use 'X*' | --dont-use goes with --liberty or --check-technology
synth popcount --energy | block must be deca, not popcount
synth popcount --netlist n.v | --netlist needs one BLOCK and one technology
synth popcount --tech asap7 --liberty x.lib | --tech and --liberty exclude each other
synth popcount --tech n3 | unknown technology 'n3'; known: asap7, sky130hd
synth | name one BLOCK, or --all
verilog -o out | name one BLOCK, or --all
verilog queue --all -o out | name one BLOCK, or --all
verilog queue | the following arguments are required: -o/--output; see tilewright
zzz | unknown command 'zzz'; known: claims, compare, compile, completion, conform, design, doctor
"""


@pytest.mark.parametrize(("argv", "message"), table_rows(REFUSALS))
def test_refusals(capsys, monkeypatch, tmp_path, argv, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert err.startswith(f"tilewright: {message}")
    assert err.count("\n") == 1
    assert not any(tmp_path.iterdir())
