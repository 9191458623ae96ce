// Cells of FPGAs of which Yosys knows the ports alone, by what they do. Only what Yosys makes of them:
// a multiplier without registers, whose other inputs are constant, and a block RAM without output
// registers, whose chip selects are 0 and whose reset is synchronous.

module MULT18X18D (
  input A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16, A17,
  input B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13, B14, B15, B16, B17,
  input C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17,
  input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
  output P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, P15, P16, P17, P18, P19,
    P20, P21, P22, P23, P24, P25, P26, P27, P28, P29, P30, P31, P32, P33, P34, P35
);
  wire [17:0] a = {A17, A16, A15, A14, A13, A12, A11, A10, A9, A8, A7, A6, A5, A4, A3, A2, A1, A0};
  wire [17:0] b = {B17, B16, B15, B14, B13, B12, B11, B10, B9, B8, B7, B6, B5, B4, B3, B2, B1, B0};
  wire signed [18:0] wide_a = {SIGNEDA & a[17], a};
  wire signed [18:0] wide_b = {SIGNEDB & b[17], b};
  wire signed [37:0] product = wide_a * wide_b;
  assign {P35, P34, P33, P32, P31, P30, P29, P28, P27, P26, P25, P24, P23, P22, P21, P20, P19, P18,
    P17, P16, P15, P14, P13, P12, P11, P10, P9, P8, P7, P6, P5, P4, P3, P2, P1, P0} = product[35:0];
endmodule

// A row of the memory is 36 bits, four bytes of 9. Narrow words have an address below the byte's, and
// leave the ninth bits alone. Words of 18 and 36 bits have an enable for each byte where narrower ones
// have the lowest bits of their address.
module DP16KD (
  input DIA0, DIA1, DIA2, DIA3, DIA4, DIA5, DIA6, DIA7, DIA8, DIA9, DIA10, DIA11, DIA12, DIA13,
    DIA14, DIA15, DIA16, DIA17, ADA0, ADA1, ADA2, ADA3, ADA4, ADA5, ADA6, ADA7, ADA8, ADA9, ADA10,
    ADA11, ADA12, ADA13, CEA, OCEA, CLKA, WEA, RSTA, CSA0, CSA1, CSA2,
  input DIB0, DIB1, DIB2, DIB3, DIB4, DIB5, DIB6, DIB7, DIB8, DIB9, DIB10, DIB11, DIB12, DIB13,
    DIB14, DIB15, DIB16, DIB17, ADB0, ADB1, ADB2, ADB3, ADB4, ADB5, ADB6, ADB7, ADB8, ADB9, ADB10,
    ADB11, ADB12, ADB13, CEB, OCEB, CLKB, WEB, RSTB, CSB0, CSB1, CSB2,
  output DOA0, DOA1, DOA2, DOA3, DOA4, DOA5, DOA6, DOA7, DOA8, DOA9, DOA10, DOA11, DOA12, DOA13,
    DOA14, DOA15, DOA16, DOA17, DOB0, DOB1, DOB2, DOB3, DOB4, DOB5, DOB6, DOB7, DOB8, DOB9, DOB10,
    DOB11, DOB12, DOB13, DOB14, DOB15, DOB16, DOB17
);
  parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18, REGMODE_A = "NOREG", REGMODE_B = "NOREG";
  parameter RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC", GSR = "ENABLED";
  parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", CLKAMUX = "CLKA", CLKBMUX = "CLKB";
  parameter WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL", INIT_DATA = "STATIC";
  parameter [319:0] INITVAL_00 = 320'd0, INITVAL_01 = 320'd0, INITVAL_02 = 320'd0, INITVAL_03 =
    320'd0, INITVAL_04 = 320'd0, INITVAL_05 = 320'd0, INITVAL_06 = 320'd0, INITVAL_07 = 320'd0,
    INITVAL_08 = 320'd0, INITVAL_09 = 320'd0, INITVAL_0A = 320'd0, INITVAL_0B = 320'd0, INITVAL_0C =
    320'd0, INITVAL_0D = 320'd0, INITVAL_0E = 320'd0, INITVAL_0F = 320'd0, INITVAL_10 = 320'd0,
    INITVAL_11 = 320'd0, INITVAL_12 = 320'd0, INITVAL_13 = 320'd0, INITVAL_14 = 320'd0, INITVAL_15 =
    320'd0, INITVAL_16 = 320'd0, INITVAL_17 = 320'd0, INITVAL_18 = 320'd0, INITVAL_19 = 320'd0,
    INITVAL_1A = 320'd0, INITVAL_1B = 320'd0, INITVAL_1C = 320'd0, INITVAL_1D = 320'd0, INITVAL_1E =
    320'd0, INITVAL_1F = 320'd0, INITVAL_20 = 320'd0, INITVAL_21 = 320'd0, INITVAL_22 = 320'd0,
    INITVAL_23 = 320'd0, INITVAL_24 = 320'd0, INITVAL_25 = 320'd0, INITVAL_26 = 320'd0, INITVAL_27 =
    320'd0, INITVAL_28 = 320'd0, INITVAL_29 = 320'd0, INITVAL_2A = 320'd0, INITVAL_2B = 320'd0,
    INITVAL_2C = 320'd0, INITVAL_2D = 320'd0, INITVAL_2E = 320'd0, INITVAL_2F = 320'd0, INITVAL_30 =
    320'd0, INITVAL_31 = 320'd0, INITVAL_32 = 320'd0, INITVAL_33 = 320'd0, INITVAL_34 = 320'd0,
    INITVAL_35 = 320'd0, INITVAL_36 = 320'd0, INITVAL_37 = 320'd0, INITVAL_38 = 320'd0, INITVAL_39 =
    320'd0, INITVAL_3A = 320'd0, INITVAL_3B = 320'd0, INITVAL_3C = 320'd0, INITVAL_3D = 320'd0,
    INITVAL_3E = 320'd0, INITVAL_3F = 320'd0;
  localparam [20479:0] FIRST = {INITVAL_3F, INITVAL_3E, INITVAL_3D, INITVAL_3C, INITVAL_3B,
    INITVAL_3A, INITVAL_39, INITVAL_38, INITVAL_37, INITVAL_36, INITVAL_35, INITVAL_34, INITVAL_33,
    INITVAL_32, INITVAL_31, INITVAL_30, INITVAL_2F, INITVAL_2E, INITVAL_2D, INITVAL_2C, INITVAL_2B,
    INITVAL_2A, INITVAL_29, INITVAL_28, INITVAL_27, INITVAL_26, INITVAL_25, INITVAL_24, INITVAL_23,
    INITVAL_22, INITVAL_21, INITVAL_20, INITVAL_1F, INITVAL_1E, INITVAL_1D, INITVAL_1C, INITVAL_1B,
    INITVAL_1A, INITVAL_19, INITVAL_18, INITVAL_17, INITVAL_16, INITVAL_15, INITVAL_14, INITVAL_13,
    INITVAL_12, INITVAL_11, INITVAL_10, INITVAL_0F, INITVAL_0E, INITVAL_0D, INITVAL_0C, INITVAL_0B,
    INITVAL_0A, INITVAL_09, INITVAL_08, INITVAL_07, INITVAL_06, INITVAL_05, INITVAL_04, INITVAL_03,
    INITVAL_02, INITVAL_01, INITVAL_00};
  reg [35:0] mem [0:511];
  integer k;
  initial for (k = 0; k < 512; k = k + 1)
    mem[k] = {FIRST[40 * k + 20 +: 18], FIRST[40 * k +: 18]};

  wire [13:0] at_A = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2,
    ADA1, ADA0};
  wire [3:0] bytes_A = DATA_WIDTH_A == 36 ? at_A[3:0] :
    DATA_WIDTH_A == 18 ? {2'd0, at_A[1:0]} << {at_A[4], 1'd0} :
    4'd1 << at_A[4:3];
  wire [7:0] places_A =
    DATA_WIDTH_A == 4 ? 8'h0f << {at_A[2], 2'd0} :
    DATA_WIDTH_A == 2 ? 8'h03 << {at_A[2:1], 1'd0} :
    DATA_WIDTH_A == 1 ? 8'h01 << at_A[2:0] : 8'hff;
  wire [35:0] mask_A = {
    {9{bytes_A[3]}}, {9{bytes_A[2]}},
    {9{bytes_A[1]}}, {9{bytes_A[0]}}
  } & {4{DATA_WIDTH_A >= 9, places_A}};
  wire [17:0] given_A = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7,
    DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0};
  wire [35:0] word_A =
    DATA_WIDTH_A == 36 ? {{DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7,
      DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0}, {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11,
      DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0}} :
    DATA_WIDTH_A == 18 ? {2{given_A}} :
    DATA_WIDTH_A == 9 ? {4{given_A[8:0]}} :
    DATA_WIDTH_A == 4 ? {4{1'b0, {2{given_A[3:0]}}}} :
    DATA_WIDTH_A == 2 ? {4{1'b0, {4{given_A[1:0]}}}} :
    {4{1'b0, {8{given_A[0]}}}};
  reg [35:0] row_A = 36'd0;
  reg [4:0] low_A = 5'd0;
  wire [35:0] old_A = mem[at_A[13:5]];
  wire [35:0] new_A = (old_A & ~mask_A) | (word_A & mask_A);
  wire writes_A = CEA & WEA;
  always @(posedge CLKA) begin
    if (writes_A) mem[at_A[13:5]] <= new_A;
    if (RSTA) row_A <= 36'd0;
    else if (CEA & ~(WEA & WRITEMODE_A == "NORMAL")) begin
      row_A <= WEA & WRITEMODE_A == "WRITETHROUGH" ? new_A : old_A;
      low_A <= at_A[4:0];
    end
  end
  wire [17:0] half_A = low_A[4] ? row_A[35:18] : row_A[17:0];
  wire [8:0] byte_A = low_A[3] ? half_A[17:9] : half_A[8:0];
  wire [7:0] part_A = byte_A[7:0] >>
    (DATA_WIDTH_A == 4 ? {low_A[2], 2'd0} :
     DATA_WIDTH_A == 2 ? {low_A[2:1], 1'd0} : low_A[2:0]);
  wire [17:0] read_A = DATA_WIDTH_A == 18 ? half_A :
    DATA_WIDTH_A == 9 ? {9'd0, byte_A} : {10'd0, part_A};

  wire [13:0] at_B = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2,
    ADB1, ADB0};
  wire [3:0] bytes_B = DATA_WIDTH_B == 36 ? at_B[3:0] :
    DATA_WIDTH_B == 18 ? {2'd0, at_B[1:0]} << {at_B[4], 1'd0} :
    4'd1 << at_B[4:3];
  wire [7:0] places_B =
    DATA_WIDTH_B == 4 ? 8'h0f << {at_B[2], 2'd0} :
    DATA_WIDTH_B == 2 ? 8'h03 << {at_B[2:1], 1'd0} :
    DATA_WIDTH_B == 1 ? 8'h01 << at_B[2:0] : 8'hff;
  wire [35:0] mask_B = {
    {9{bytes_B[3]}}, {9{bytes_B[2]}},
    {9{bytes_B[1]}}, {9{bytes_B[0]}}
  } & {4{DATA_WIDTH_B >= 9, places_B}};
  wire [17:0] given_B = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7,
    DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0};
  wire [35:0] word_B =
    DATA_WIDTH_B == 36 ? {{DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7,
      DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0}, {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11,
      DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0}} :
    DATA_WIDTH_B == 18 ? {2{given_B}} :
    DATA_WIDTH_B == 9 ? {4{given_B[8:0]}} :
    DATA_WIDTH_B == 4 ? {4{1'b0, {2{given_B[3:0]}}}} :
    DATA_WIDTH_B == 2 ? {4{1'b0, {4{given_B[1:0]}}}} :
    {4{1'b0, {8{given_B[0]}}}};
  reg [35:0] row_B = 36'd0;
  reg [4:0] low_B = 5'd0;
  wire [35:0] old_B = mem[at_B[13:5]];
  wire [35:0] new_B = (old_B & ~mask_B) | (word_B & mask_B);
  wire writes_B = CEB & WEB;
  always @(posedge CLKB) begin
    if (writes_B) mem[at_B[13:5]] <= new_B;
    if (RSTB) row_B <= 36'd0;
    else if (CEB & ~(WEB & WRITEMODE_B == "NORMAL")) begin
      row_B <= WEB & WRITEMODE_B == "WRITETHROUGH" ? new_B : old_B;
      low_B <= at_B[4:0];
    end
  end
  wire [17:0] half_B = low_B[4] ? row_B[35:18] : row_B[17:0];
  wire [8:0] byte_B = low_B[3] ? half_B[17:9] : half_B[8:0];
  wire [7:0] part_B = byte_B[7:0] >>
    (DATA_WIDTH_B == 4 ? {low_B[2], 2'd0} :
     DATA_WIDTH_B == 2 ? {low_B[2:1], 1'd0} : low_B[2:0]);
  wire [17:0] read_B = DATA_WIDTH_B == 18 ? half_B :
    DATA_WIDTH_B == 9 ? {9'd0, byte_B} : {10'd0, part_B};

  wire [35:0] whole_B = row_B;
  assign {DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5,
    DOA4, DOA3, DOA2, DOA1, DOA0} = DATA_WIDTH_B == 36 ? whole_B[17:0] : read_A;
  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5,
    DOB4, DOB3, DOB2, DOB1, DOB0} = DATA_WIDTH_B == 36 ? whole_B[35:18] : read_B;
endmodule
