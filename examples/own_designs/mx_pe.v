// A dot-product PE for the OCP Microscaling formats: 8 products a cycle of fp8 (e4m3) activations
// and fp4 (e2m1) weights, in blocks of 32 that share a scale of 8 bits (e8m0) on either side.
// Products and the sum of a block are exact; block sums are added in fixed point.
//
//   tilewright compare pe --tech asap7 --with mx_pe.v --top mx_pe --macs 32 --cycles 4 \
//       --format mxfp8_e4m3xmxfp4
module mx_pe (
    input clk,
    input rst,
    input start,                // with the first operands of a dot product
    input first,                // with the first of the four beats of a block
    input [63:0] a,             // 8 x e4m3, element 0 in the low bits
    input [31:0] b,             // 8 x e2m1
    input [7:0] a_scale,        // e8m0, of the block
    input [7:0] b_scale,
    output reg signed [63:0] y
);
    // An e4m3 magnitude in units of 2^-9 and an e2m1 magnitude in units of 2^-1.
    function [17:0] wide(input [6:0] code);
        wide = code[6:3] == 0 ? {15'b0, code[2:0]} : {14'b0, 1'b1, code[2:0]} << (code[6:3] - 1);
    endfunction
    function [3:0] narrow(input [2:0] code);
        narrow = code[2:1] == 0 ? {3'b0, code[0]} : {2'b0, 1'b1, code[0]} << (code[2:1] - 1);
    endfunction

    reg signed [22:0] product [0:7];
    reg signed [25:0] beat;
    reg [21:0] magnitude;
    integer k;
    always @* begin
        beat = 0;
        for (k = 0; k < 8; k = k + 1) begin
            magnitude = wide(a[8*k +: 7]) * narrow(b[4*k +: 3]);
            product[k] = a[8*k + 7] ^ b[4*k + 3] ? -$signed({1'b0, magnitude})
                                                : $signed({1'b0, magnitude});
            beat = beat + product[k];
        end
    end

    // The sum of a block, and its scale; both wait for the block after it.
    reg signed [27:0] block;
    reg [8:0] scale;
    reg fresh;
    wire [8:0] shift = scale < 9'd224 ? 9'd0 : scale - 9'd224 > 9'd35 ? 9'd35 : scale - 9'd224;
    wire signed [63:0] placed = $signed({{36{block[27]}}, block}) <<< shift[5:0];
    always @(posedge clk)
        if (rst) begin
            block <= 0;
            scale <= 0;
            fresh <= 0;
            y <= 0;
        end else begin
            block <= first ? $signed(beat) : block + beat;
            if (first) scale <= a_scale + b_scale;
            fresh <= start;
            if (first) y <= fresh ? placed : y + placed;
        end
endmodule
