; Attention of two queries over four tokens of 8 channels, on harmonia:small (2 rows, 4 columns,
; groups of 8). A token tile is two tokens: two rows of fp16, a line (see harmonia-system.md).
; K lies in lines 0 and 1, V in 2 and 3, the queries of tokens 2 and 3 in line 4; results go to 5.

configure tokens=4

; keys: offsets of the channels, then a column for each token
load fp16, row=0, rows=2, line=0
load fp16, row=2, rows=2, line=1
learn source=0, elements=8, first=1
learn source=2, elements=8, last=1
convert keys, source=0, elements=8, destination=0, low_halves=64, metadata=0, part=0
convert keys, source=2, elements=8, destination=0, low_halves=64, metadata=0, part=1

; values: a group of eight tokens, four of them there, two tiles of four channels
load fp16, row=4, rows=2, line=2
load fp16, row=6, rows=2, line=3
convert values, source=4, elements=8, destination=8, low_halves=128, metadata=8, tokens=4

; scores and the largest of each query; bank 0 is token 2, which sees three tokens
configure tokens=4, causal_limit=3
load fp16, row=12, rows=2, line=4
convert activations, source=12, elements=8, destination=0
gemm keys, source=0, operands=0, low_halves=64, metadata=0, destination=16, groups=1, tiles=1, maxima=1, register=0

; powers and their sums
powers r16, r16, s0, elements=4, total=s1, causal_limit=3

; times values, divided by the sums
convert activations, source=16, elements=4, destination=1
gemm values, source=1, operands=8, low_halves=128, metadata=8, destination=20, groups=1, tiles=2
reciprocal s1, s1
multiply r20, r20, s1, elements=8
store fp16, row=20, rows=2, line=5
halt
