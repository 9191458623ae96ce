"""One step of a layout, run by OpenROAD's own Python: ``inside.py JOB.json|--version``.

Uses the standard library and ``openroad`` alone: that Python has none of this project's packages. A
step reads the layout of the step before, if there is one, and writes its own, with the figures
known by then.
"""

import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any


class Flow:
    """One step on one design."""

    def __init__(self, job: dict[str, Any]):
        from openroad import Design, Tech

        self.job, self.technology = job, job["technology"]
        self.out = Path(job["out"])
        self.tech = Tech()
        self.design = Design(self.tech)
        self.figures: dict[str, float] = {}

    def tcl(self, text: str) -> str:
        """Return a command's result; raise its errors, which OpenROAD does not."""
        failed = self.design.evalTclString(f"catch {{{text}}} answer")
        answer = str(self.design.evalTclString("set answer"))
        if failed != "0":
            command = text.split()[0]
            raise RuntimeError(f"{command}: {answer}")
        return answer

    def run(self) -> None:
        job = self.job
        for path in job["liberty"]:
            self.tech.readLiberty(path)
        if job["before"]:
            self.design.readDb(job["before"])
            self.routing_layers()
        else:
            for path in job["lef"]:
                self.tech.readLef(path)
            self.design.readVerilog(job["verilog"])
            self.design.link(job["top"])
        self.wires()
        self.tcl(job["sdc"])
        if job["clocked"] and job["step"] != "placed":
            self.tcl("set_propagated_clock [all_clocks]")
        getattr(self, f"step_{job['step']}")()
        self.write()

    def wires(self) -> None:
        """Resistance and capacitance of layers."""
        technology = self.technology
        for layer, (resistance, capacitance) in technology["wires"].items():
            values = f"-resistance {resistance} -capacitance {capacitance}"
            self.tcl(f"set_layer_rc -layer {layer} {values}")
        for via, resistance in technology["vias"].items():
            self.tcl(f"set_layer_rc -via {via} -resistance {resistance}")
        for use in ("signal", "clock"):
            self.tcl(f"set_wire_rc -{use} -layers {{{technology[f'{use}_wire']}}}")
        self.tcl("set_placement_padding -global -left 0 -right 0")

    def routing_layers(self) -> None:
        technology = self.technology
        low, high = technology["routing"]
        clock_low, clock_high = technology["clock_routing"]
        self.tcl(f"set_routing_layers -signal {low}-{high} -clock {clock_low}-{clock_high}")
        self.tcl(f"set_global_routing_layer_adjustment {low}-{high} {technology['adjustment']}")

    # Steps.

    def step_placed(self) -> None:
        self.figures["slack_before"] = self.slack()
        self.floorplan()
        self.supply()
        # Space around each cell for routing and repair.
        padding = "-pad_left 2 -pad_right 2"
        self.tcl("remove_buffers")
        least = float(self.tcl(f"gpl::get_global_placement_uniform_density {padding}"))
        placement = f"{padding} -density {min(0.99, least + 0.2 * (1 - least)):.4f}"
        self.tcl(f"global_placement -skip_io {placement}")
        horizontal, vertical = self.technology["pin_layers"]
        self.tcl(f"place_pins -hor_layers {horizontal} -ver_layers {vertical}")
        self.tcl(f"global_placement -timing_driven {placement}")
        self.tcl("estimate_parasitics -placement")
        self.tcl("repair_design")
        self.legalise()
        self.tcl("improve_placement")
        self.tcl("optimize_mirroring")
        self.tcl("estimate_parasitics -placement")

    def step_cts(self) -> None:
        if self.job["clocked"]:
            buffer = self.technology["buffer"]
            self.tcl("repair_clock_inverters")
            self.tcl(
                f"clock_tree_synthesis -root_buf {buffer} -buf_list {buffer}"
                " -sink_clustering_enable"
            )
            self.tcl("set_propagated_clock [all_clocks]")
            self.tcl("estimate_parasitics -placement")
            self.tcl("repair_clock_nets")
            self.legalise()
        self.tcl("estimate_parasitics -placement")
        self.balance_ports()
        self.repair()
        self.tcl("estimate_parasitics -placement")
        self.balance_ports()

    def step_global(self) -> None:
        self.route()
        for _ in range(self.job["repairs"]):
            self.tcl("repair_design")
            self.repair()
            self.route()
        self.tcl("report_wire_length -global_route -summary")

    def step_routed(self) -> None:
        self.route()
        self.tcl("pin_access")
        self.tcl(f"detailed_route -output_drc {self.out / 'violations.txt'}")
        self.figures["antenna_violations"] = float(self.tcl("check_antennas"))
        self.tcl(f"filler_placement {{{' '.join(self.technology['fillers'])}}}")
        if rules := self.job["extraction"]:
            self.tcl("define_process_corner -ext_model_index 0 X")
            self.tcl(f"extract_parasitics -ext_model_file {rules}")
            self.tcl(f"write_spef {self.out / 'wires.spef'}")
            self.tcl(f"read_spef {self.out / 'wires.spef'}")
        self.balance_ports()

    def floorplan(self) -> None:
        """A square die at the requested utilisation, memories at its sides."""
        floorplan, technology = self.design.getFloorplan(), self.technology
        site = floorplan.findSite(technology["site"])
        margin = 2 * site.getHeight()
        floorplan.initFloorplan(
            100 * self.job["utilisation"], 1.0, margin, margin, margin, margin, site
        )
        database = self.design.getTech().getDB().getTech()
        self.per_um = database.getDbUnitsPerMicron()

        def tracks(layer: str, *numbers: float) -> None:
            units = [round(number * self.per_um) for number in numbers]
            floorplan.makeTracks(database.findLayer(layer), *units)

        for layer, numbers in technology["tracks"].items():
            tracks(layer, *numbers)
        for layer, rows in technology.get("row_tracks", {}).items():
            for offset in rows["offsets"]:
                tracks(layer, *rows["x"], offset, rows["pitch"])
        self.routing_layers()
        self.place_macros(site.getHeight())
        tap = technology["tap"]
        self.tcl(f"tapcell -distance {tap['distance']} -tapcell_master {tap['cell']}")

    def place_macros(self, halo: int) -> None:
        """Memories in columns, the tallest first, at the left and the right edge in turn."""
        block = self.design.getBlock()
        macros = [i for i in block.getInsts() if i.getMaster().isBlock()]
        if not macros:
            return
        core = block.getCoreArea()
        left, right, y, width, at_left = core.xMin(), core.xMax(), core.yMin(), 0, True
        macros.sort(key=lambda i: (-i.getMaster().getHeight(), i.getName()))
        grid = halo // 2
        for macro in macros:
            master = macro.getMaster()
            if y + master.getHeight() > core.yMax():
                # Memories have pins at both sides: columns have channels in between.
                if at_left:
                    left += width + 8 * halo
                else:
                    right -= width + 8 * halo
                at_left, y, width = not at_left, core.yMin(), 0
            x = left if at_left else right - master.getWidth()
            macro.setLocation(x // grid * grid, y // grid * grid)
            macro.setPlacementStatus("FIRM")
            y += master.getHeight() + 2 * halo
            width = max(width, master.getWidth())
        if left + width > right:
            raise RuntimeError("the memories do not fit: ask for a lower --utilisation")
        um = halo / self.per_um
        self.tcl(f"cut_rows -halo_width_x {um} -halo_width_y {um}")

    def supply(self) -> None:
        supply = self.technology["supply"]
        power, ground = supply["nets"]
        for net, kind in ((power, "power"), (ground, "ground")):
            self.tcl(f"add_global_connection -net {net} -pin_pattern ^{net}$ -{kind}")
        for net, well in zip(supply["nets"], supply["wells"]):
            self.tcl(f"add_global_connection -net {net} -pin_pattern ^{well}$")
        self.tcl("global_connect")
        self.tcl(f"set_voltage_domain -power {power} -ground {ground}")
        self.tcl("define_pdn_grid -name grid")
        for layer, width in supply["rails"].items():
            self.tcl(f"add_pdn_stripe -grid grid -layer {layer} -width {width} -followpins")
        core = self.design.getBlock().getCoreArea()
        side = min(core.dx(), core.dy()) / self.per_um
        for layer, (width, pitch, offset) in supply["straps"].items():
            # At least a pair of straps, even in a tiny die.
            scale = min(1.0, side / (1.5 * pitch))
            self.tcl(
                f"add_pdn_stripe -grid grid -layer {layer} -width {width}"
                f" -pitch {scale * pitch:.2f} -offset {scale * offset:.2f}"
            )
        for below, above in supply["connect"]:
            self.tcl(f"add_pdn_connect -grid grid -layers {{{below} {above}}}")
        self.tcl("pdngen")

    # Parts of steps.

    def legalise(self) -> None:
        self.tcl("detailed_placement")
        self.tcl("check_placement")

    def repair(self) -> None:
        # The worst tenth of the failing paths: the figure of interest is the worst.
        self.tcl("repair_timing -setup -repair_tns 10")
        if self.job["clocked"]:
            self.tcl("repair_timing -hold")
        self.legalise()

    def route(self) -> None:
        self.tcl("global_route -congestion_iterations 50")
        self.tcl(f"estimate_parasitics -global_routing -spef_file {self.out / 'wires.spef'}")
        self.balance_ports()

    def balance_ports(self) -> None:
        """Give the registers around the block the latency of its clock tree."""
        if not self.job["clocked"]:
            return
        path = self.out / "latency.txt"
        self.tcl(f"report_clock_latency > {path}")
        found = re.search(r"([-\d.]+) +([-\d.]+) latency", path.read_text())
        path.unlink()
        if found is None:
            raise RuntimeError("no register has a clock")
        first, last = float(found[1]), float(found[2])
        self.figures |= {"latency": last, "skew": last - first}
        mean = (first + last) / 2
        self.tcl(f"set_input_delay {mean} -clock clk [get_ports {{{self.job['inputs']}}}]")
        self.tcl(f"set_output_delay {-mean} -clock clk [all_outputs]")

    def slack(self, kind: str = "max") -> float:
        return float(self.tcl(f"worst_slack -{kind}"))

    def write(self) -> None:
        """Write the layout, its figures and its longest path."""
        block = self.design.getBlock()
        self.per_um = block.getDbUnitsPerMicron()
        area, insts = 0.0, [i for i in block.getInsts() if not i.getMaster().isFiller()]
        for inst in insts:
            area += inst.getMaster().getWidth() * inst.getMaster().getHeight() / self.per_um**2
        die, core = block.getDieArea(), block.getCoreArea()
        self.figures |= {
            "slack": self.slack(),
            "cells": sum(not i.getMaster().getType().startswith("CORE_WELLTAP") for i in insts),
            "cell_area": area,
            "utilisation": area / (core.dx() * core.dy() / self.per_um**2),
            "width": die.dx() / self.per_um,
            "height": die.dy() / self.per_um,
        }
        if self.job["clocked"]:
            self.figures["hold_slack"] = self.slack("min")
        fields = "-path_delay max -fields {slew capacitance} -format full_clock_expanded"
        self.tcl(f"report_checks {fields} > {self.out / 'path.txt'}")
        self.tcl(f"write_verilog {self.out / 'netlist.v'}")
        self.design.writeDef(str(self.out / "layout.def"))
        self.design.writeDb(str(self.out / "layout.odb"))
        (self.out / "figures.json").write_text(json.dumps(self.figures))


def version() -> str:
    import openroad

    try:
        return metadata.version("openroad")
    except metadata.PackageNotFoundError:  # in the binary
        return f"{openroad.openroad_version()} {openroad.openroad_git_describe()}"


def main() -> None:
    if sys.argv[1] == "--version":
        print("VERSION", version())
        return
    try:
        Flow(json.loads(Path(sys.argv[1]).read_text())).run()
    except RuntimeError as error:
        print(f"STOPPED: {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
