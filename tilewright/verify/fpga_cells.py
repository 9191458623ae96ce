"""Cells of FPGAs of which Yosys knows the ports alone, as Verilog by what they do.

Only what Yosys makes of them: a multiplier without registers, whose other inputs are constant.
"""

__all__ = ["OWN_MODELS"]


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

# Kind of cell -> its model.
OWN_MODELS = {"MULT18X18D": _MULT18X18D}
