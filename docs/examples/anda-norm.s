; A norm and a softmax of two tokens of 24 values, on anda:small (2 rows, groups of 16).
; The tokens lie in external memory from line 0 on, as fp16 rows (see anda-system.md): 24 values
; are two groups, 32 rows of 4 bytes, two lines. Results go to lines 2 and 4.

load activations, row=0, rows=32, line=0

; x / sqrt(mean(x^2) + 1e-5)
dot s0, r0, r0, elements=24, scale=0.0416667
add s0, s0, #1e-5
reciprocal_root s0, s0
multiply r32, r0, s0, elements=24
store activations, row=32, rows=32, line=2

; softmax
largest s1, r32, elements=24
subtract r64, r32, s1, elements=24
exponential r64, r64, elements=24
sum s2, r64, elements=24
reciprocal s2, s2
multiply r64, r64, s2, elements=24
store activations, row=64, rows=32, line=4
halt
