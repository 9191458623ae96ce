"""Tables and figures of the site need no more than the required dependencies."""

import subprocess
import sys


def test_tables_and_figures_need_no_optional_package():
    names = ["cocotb", "gguf", "ml_dtypes", "pytest", "safetensors", "torch"]
    script = (
        f"import sys; sys.modules |= dict.fromkeys({names});"
        "import pkgutil, tilewright.site;"
        "found = pkgutil.walk_packages(tilewright.site.__path__, 'tilewright.site.');"
        "names = [module.name for module in found if not module.name.endswith('__main__')];"
        "print(len([__import__(name) for name in names]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
