"""Places from DEF, sizes from LEF, the way of the longest path from its report."""

from tilewright.synth.layout.picture import Placed, lef_sizes, path_points, read_def

DEF = """\
VERSION 5.8 ;
UNITS DISTANCE MICRONS 1000 ;
DIEAREA ( 1000 0 ) ( 97770 97770 ) ;
COMPONENTS 3 ;
    - TAP_0 sky130_fd_sc_hd__tapvpwrvgnd_1 + SOURCE DIST + FIXED ( 19320 5440 ) N ;
    - _12_ sky130_fd_sc_hd__nand2_1 + PLACED ( 33120 8160 ) FS ;
    - bank/word\\[3\\] sram_16x8 + FIXED ( 2000 4000 ) W ;
END COMPONENTS
PINS 2 ;
    - clk + NET clk + DIRECTION INPUT + USE SIGNAL
      + PORT
        + LAYER met3 ( -400 -150 ) ( 400 150 )
        + PLACED ( 1400 43140 ) N ;
    - data[0] + NET data[0] + DIRECTION OUTPUT + USE SIGNAL
      + PORT
        + LAYER met2 ( -70 -242 ) ( 70 243 )
        + PLACED ( 60030 242 ) N ;
END PINS
"""
REPORT = """\
Startpoint: data_in (input port clocked by clk)

    Cap    Slew   Delay    Time   Description
-----------------------------------------------------------------------
                   0.00    0.00   clock clk (rise edge)
                 648.37  648.37 v input external delay
  17.62  106.61   79.38  727.75 v data_in (in)
   4.16  212.18  294.14 1021.89 ^ _0991_/Y (sky130_fd_sc_hd__nor4_2)
   9.60  151.03  178.15 1200.04 v bank/word[3]/Y (sky130_fd_sc_hd__nand4_1)
          60.63    0.07 1200.11 v kept$_DFF_P_/D (sky130_fd_sc_hd__dfxtp_1)
                        1200.11   data arrival time

   6.98    0.00    0.00 3907.10 ^ clk (in)
  11.76   44.64   97.31 4004.41 ^ clkbuf_0_clk/X (sky130_fd_sc_hd__buf_4)
"""


def test_places_are_relative_to_the_die():
    found = read_def(DEF)
    assert (found.width, found.height) == (96.77, 97.77)
    assert [round(cell.x, 3) for cell in found.cells] == [18.32, 32.12, 1.0]
    assert found.cells[2] == Placed("bank/word[3]", "sram_16x8", 1.0, 4.0, True)
    assert {name: (round(x, 3), y) for name, (x, y) in found.ports.items()} == {
        "clk": (0.4, 43.14),
        "data[0]": (59.03, 0.242),
    }


def test_sizes_are_of_their_own_macro():
    text = (
        "MACRO buf_1\n  ORIGIN 0 0 ;\n  SIZE  1.380000 BY  2.720000 ;\nEND buf_1\n"
        "MACRO buf_16\n  PIN A\n  END A\n  SIZE 5.06 BY 2.72 ;\nEND buf_16\n"
    )
    assert lef_sizes(text) == {"buf_1": (1.38, 2.72), "buf_16": (5.06, 2.72)}


def test_the_path_is_that_of_the_data():
    assert path_points(REPORT) == ["data_in", "_0991_", "bank/word[3]", "kept$_DFF_P_"]
