// A look-up PE: 32 products of int8 activations and 4-bit weights in 4 cycles without a multiplier.
// Of four activations all sixteen partial sums are known; four weights choose one of them with each
// of their bits, from the lowest up, and the sign bit subtracts.
//
//   tilewright compare pe --tech asap7 --with lut_pe.v --top lut_pe --macs 32 --cycles 4 \
//       --format int8xint4
module lut_pe (
    input clk,
    input rst,
    input start,                // with the first operands of a dot product
    input first,                // in the first of the four cycles of its operands
    input [255:0] a,            // 32 x int8, held for four cycles
    input [127:0] b,            // 32 x int4
    output reg signed [31:0] y
);
    reg [1:0] plane;            // bit of the weights that the last cycle took
    wire [1:0] now = first ? 2'd0 : plane + 2'd1;

    reg signed [9:0] chosen;
    reg signed [12:0] sum;
    integer g, k;
    always @* begin
        sum = 0;
        for (g = 0; g < 8; g = g + 1) begin
            chosen = 0;
            for (k = 0; k < 4; k = k + 1)
                if (b[16*g + 4*k + now]) chosen = chosen + $signed(a[32*g + 8*k +: 8]);
            sum = sum + chosen;
        end
    end

    wire signed [31:0] placed = $signed({{19{sum[12]}}, sum}) <<< now;
    wire signed [31:0] term = now == 2'd3 ? -placed : placed;
    always @(posedge clk)
        if (rst) begin
            plane <= 0;
            y <= 0;
        end else begin
            plane <= now;
            y <= start && first ? term : y + term;
        end
endmodule
