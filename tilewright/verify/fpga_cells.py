"""Cells of FPGAs of which Yosys knows the ports alone, as Verilog by what they do.

Only what Yosys makes of them: a multiplier without registers, whose other inputs are constant, and
a block RAM without output registers, whose chip selects are 0 and whose reset is synchronous.
"""


def _pins(name: str, bits: int) -> str:
    """Single-bit ports as one vector, the highest bit first."""
    return "{" + ", ".join(f"{name}{k}" for k in reversed(range(bits))) + "}"


def _names(name: str, bits: int) -> str:
    return ", ".join(f"{name}{k}" for k in range(bits))


_MULT18X18D = f"""
module MULT18X18D (
  input {_names("A", 18)},
  input {_names("B", 18)},
  input {_names("C", 18)},
  input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
  output {_names("P", 36)}
);
  wire [17:0] a = {_pins("A", 18)};
  wire [17:0] b = {_pins("B", 18)};
  wire signed [18:0] wide_a = {{SIGNEDA & a[17], a}};
  wire signed [18:0] wide_b = {{SIGNEDB & b[17], b}};
  wire signed [37:0] product = wide_a * wide_b;
  assign {_pins("P", 36)} = product[35:0];
endmodule
"""

_SLICES = 64  # parameters that hold what a block RAM contains at first
_SLICE_NAMES = [f"INITVAL_{k:02X}" for k in range(_SLICES)]


def _port(name: str) -> str:
    """One of the two ports of a block RAM, in a module with ``mem``, ``wide_in`` and ``wide_out``.

    A row of the memory is 36 bits, four bytes of 9. Narrow words have an address below the byte's,
    and leave the ninth bits alone. Words of 18 and 36 bits have an enable for each byte where
    narrower ones have the lowest bits of their address.
    """
    return f"""
  wire [13:0] at_{name} = {_pins(f"AD{name}", 14)};
  wire [3:0] bytes_{name} = DATA_WIDTH_{name} == 36 ? at_{name}[3:0] :
    DATA_WIDTH_{name} == 18 ? {{2'd0, at_{name}[1:0]}} << {{at_{name}[4], 1'd0}} :
    4'd1 << at_{name}[4:3];
  wire [7:0] places_{name} =
    DATA_WIDTH_{name} == 4 ? 8'h0f << {{at_{name}[2], 2'd0}} :
    DATA_WIDTH_{name} == 2 ? 8'h03 << {{at_{name}[2:1], 1'd0}} :
    DATA_WIDTH_{name} == 1 ? 8'h01 << at_{name}[2:0] : 8'hff;
  wire [35:0] mask_{name} = {{
    {{9{{bytes_{name}[3]}}}}, {{9{{bytes_{name}[2]}}}},
    {{9{{bytes_{name}[1]}}}}, {{9{{bytes_{name}[0]}}}}
  }} & {{4{{DATA_WIDTH_{name} >= 9, places_{name}}}}};
  wire [17:0] given_{name} = {_pins(f"DI{name}", 18)};
  wire [35:0] word_{name} =
    DATA_WIDTH_{name} == 36 ? {{{_pins("DIB", 18)}, {_pins("DIA", 18)}}} :
    DATA_WIDTH_{name} == 18 ? {{2{{given_{name}}}}} :
    DATA_WIDTH_{name} == 9 ? {{4{{given_{name}[8:0]}}}} :
    DATA_WIDTH_{name} == 4 ? {{4{{1'b0, {{2{{given_{name}[3:0]}}}}}}}} :
    DATA_WIDTH_{name} == 2 ? {{4{{1'b0, {{4{{given_{name}[1:0]}}}}}}}} :
    {{4{{1'b0, {{8{{given_{name}[0]}}}}}}}};
  reg [35:0] row_{name} = 36'd0;
  reg [4:0] low_{name} = 5'd0;
  wire [35:0] old_{name} = mem[at_{name}[13:5]];
  wire [35:0] new_{name} = (old_{name} & ~mask_{name}) | (word_{name} & mask_{name});
  wire writes_{name} = CE{name} & WE{name};
  always @(posedge CLK{name}) begin
    if (writes_{name}) mem[at_{name}[13:5]] <= new_{name};
    if (RST{name}) row_{name} <= 36'd0;
    else if (CE{name} & ~(WE{name} & WRITEMODE_{name} == "NORMAL")) begin
      row_{name} <= WE{name} & WRITEMODE_{name} == "WRITETHROUGH" ? new_{name} : old_{name};
      low_{name} <= at_{name}[4:0];
    end
  end
  wire [17:0] half_{name} = low_{name}[4] ? row_{name}[35:18] : row_{name}[17:0];
  wire [8:0] byte_{name} = low_{name}[3] ? half_{name}[17:9] : half_{name}[8:0];
  wire [7:0] part_{name} = byte_{name}[7:0] >>
    (DATA_WIDTH_{name} == 4 ? {{low_{name}[2], 2'd0}} :
     DATA_WIDTH_{name} == 2 ? {{low_{name}[2:1], 1'd0}} : low_{name}[2:0]);
  wire [17:0] read_{name} = DATA_WIDTH_{name} == 18 ? half_{name} :
    DATA_WIDTH_{name} == 9 ? {{9'd0, byte_{name}}} : {{10'd0, part_{name}}};
"""


_DP16KD = f"""
module DP16KD (
  input {_names("DIA", 18)}, {_names("ADA", 14)}, CEA, OCEA, CLKA, WEA, RSTA, CSA0, CSA1, CSA2,
  input {_names("DIB", 18)}, {_names("ADB", 14)}, CEB, OCEB, CLKB, WEB, RSTB, CSB0, CSB1, CSB2,
  output {_names("DOA", 18)}, {_names("DOB", 18)}
);
  parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, REGMODE_A = "NOREG", REGMODE_B = "NOREG";
  parameter RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC", GSR = "ENABLED";
  parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", CLKAMUX = "CLKA", CLKBMUX = "CLKB";
  parameter WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL", INIT_DATA = "STATIC";
  parameter [319:0] {", ".join(f"{name} = 320'd0" for name in _SLICE_NAMES)};
  localparam [20479:0] FIRST = {{{", ".join(reversed(_SLICE_NAMES))}}};
  reg [35:0] mem [0:511];
  integer k;
  initial for (k = 0; k < 512; k = k + 1)
    mem[k] = {{FIRST[40 * k + 20 +: 18], FIRST[40 * k +: 18]}};
{_port("A")}{_port("B")}
  wire [35:0] whole_B = row_B;
  assign {_pins("DOA", 18)} = DATA_WIDTH_B == 36 ? whole_B[17:0] : read_A;
  assign {_pins("DOB", 18)} = DATA_WIDTH_B == 36 ? whole_B[35:18] : read_B;
endmodule
"""

# Kind of cell -> its model.
OWN_MODELS = {"MULT18X18D": _MULT18X18D, "DP16KD": _DP16KD}
