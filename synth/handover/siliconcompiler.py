"""A script for SiliconCompiler, which is configured in Python."""

from tilewright.synth.handover.design import Design
from tilewright.synth.handover.orfs import UTILISATION

__all__ = ["script"]

_TARGETS = {"asap7": "asap7_demo", "sky130hd": "skywater130_demo"}
_PDKS = {"asap7": ("lambdapdk.asap7", "ASAP7PDK"), "sky130hd": ("lambdapdk.sky130", "Sky130PDK")}

_MACROS = '''

class {class_name}(StdCellLibrary):
    """The memory {name} as a stub: where its pins are and how fast it is, without a layout."""

    def __init__(self):
        super().__init__("{name}")
        self.add_asic_pdk({pdk}())
        self.set_dataroot("here", HERE)
        with self.active_dataroot("here"):
            with self.active_fileset("models.physical"):
                self.add_file("{name}.lef")
                self.add_asic_aprfileset()
            with self.active_fileset("models.timing"):
                self.add_file("{name}.lib")
                self.add_asic_libcornerfileset("generic", "nldm")
'''


def script(design: Design) -> str:
    """``build.py``: run it to go through the whole flow; ``project()`` is the configuration."""
    target, (module, pdk) = _TARGETS[design.technology.name], _PDKS[design.technology.name]
    classes = {macro.name: f"Memory{k}" for k, macro in enumerate(design.macros)}
    text = [
        f'"""{design.name} through SiliconCompiler: {design.params.summary}"""\n\n',
        "from pathlib import Path\n\n",
        "from siliconcompiler import ASIC, Design",
        ", StdCellLibrary\n" if classes else "\n",
        f"from siliconcompiler.targets import {target}\n",
        f"from {module} import {pdk}\n" if classes else "",
        "\nHERE = str(Path(__file__).parent)\n",
    ]
    text += [
        _MACROS.format(class_name=class_name, name=name, pdk=pdk)
        for name, class_name in classes.items()
    ]
    sources = [f"{design.name}.v", *(["macros.v"] if classes else [])]
    text += [
        "\n\ndef project():\n",
        f'    """{design.name} for the target {target}."""\n',
        f'    design = Design("{design.name}")\n',
        '    design.set_dataroot("here", HERE)\n',
        '    with design.active_dataroot("here"), design.active_fileset("rtl"):\n',
        f'        design.set_topmodule("{design.name}")\n',
        *(f'        design.add_file("{source}")\n' for source in sources),
        '    with design.active_dataroot("here"), design.active_fileset("sdc"):\n',
        f'        design.add_file("{design.name}.sdc")\n',
        "    asic = ASIC(design)\n",
        '    asic.add_fileset(["rtl", "sdc"])\n',
        f"    {target}(asic)\n",
        *(f"    asic.add_asiclib({class_name}())\n" for class_name in classes.values()),
        f"    asic.constraint.area.set_density({UTILISATION})\n",
        "    return asic\n\n\n",
        'if __name__ == "__main__":\n',
        "    asic = project()\n",
        "    asic.run()\n",
        "    asic.summary()\n",
    ]
    return "".join(text)
