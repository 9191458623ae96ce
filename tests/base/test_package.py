"""The package needs no more than its required dependencies for the report."""

import subprocess
import sys


def test_the_report_needs_no_optional_package():
    names = ["cocotb", "distributed", "gguf", "ml_dtypes", "pytest", "safetensors", "torch"]
    script = (
        f"import sys; sys.modules |= dict.fromkeys({names});"
        "from tilewright.report import _page_modules; print(len(_page_modules()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
