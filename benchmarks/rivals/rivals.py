"""Milliseconds a token of other programs on the same shape, without network.

    python benchmarks/rivals/rivals.py SOURCES WORK -o OUT.json [--layers 32] [--vocabulary 128256]

SOURCES holds what was carried here: ``llama.tar.xz`` (llama.cpp's sources, folder ``lc``), the
wheel of ``gguf``, and where it is wanted ``openvino.tar.xz`` (OpenVINO with its CPU plugin and GGUF
frontend). WORK is a folder with room for the largest model file: 16 GB of bf16.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OPENVINO_LAYERS = 8  # its linear layers alone: its GGUF frontend gives graphs without a cache
SECONDS = 200  # after which a program has failed


def prepare(sources: Path, work: Path) -> dict[str, str]:
    """Unpack everything once and build llama.cpp; the environment that finds the packages."""
    packages = work / "py"
    if not packages.exists():
        packages.mkdir(parents=True)
        for wheel in sources.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(packages)
        for name, target in (("llama", work), ("openvino", packages)):
            archive = sources / f"{name}.tar.xz"
            if archive.exists():
                with tarfile.open(archive) as tar:
                    tar.extractall(target, filter="data")
    if not (work / "build" / "llama_decode").exists():
        subprocess.run(["bash", HERE / "build_llama.sh", work / "lc", work / "build"], check=True)
    return {**os.environ, "PYTHONPATH": str(packages)}


def milliseconds(command: list[Any], environment: dict[str, str]) -> dict[str, Any]:
    """The number in a program's last line, or why there is none."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {SECONDS} s"}
    lines = done.stdout.split("\n")
    try:
        return {"milliseconds": float(lines[-2] if lines[-1] == "" else lines[-1])}
    except (ValueError, IndexError):
        return {"failed": (done.stderr.strip().split("\n") or ["no output"])[-1][:300]}


def main() -> None:
    """Measure every type with every program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--types", nargs="+", default=["bf16", "q8_0", "q4_0"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--openvino", nargs="*", default=[], help="bf16, int8 and int4, if any")
    options = parser.parse_args()
    environment = prepare(options.sources, options.work)
    rows: list[dict[str, Any]] = []
    for kind in options.types:
        model = options.work / f"{kind}.gguf"
        size = (options.layers, options.vocabulary)
        writer = [sys.executable, HERE / "gguf_model.py", model, kind, *map(str, size)]
        subprocess.run(writer, env=environment, check=True)
        for batch in options.batches:
            command = [options.work / "build" / "llama_decode", model, options.threads]
            found = milliseconds([*command, batch, 0, options.tokens], environment)
            rows.append({"program": "llama.cpp", "type": kind, "batch": batch, **found})
            print(json.dumps(rows[-1]), flush=True)
        model.unlink()
    for kind in options.openvino:
        for batch in options.batches:
            command = [sys.executable, HERE / "openvino_layers.py", kind, OPENVINO_LAYERS, batch]
            found = milliseconds(command, environment)
            about = {"program": "OpenVINO, linear layers", "layers": OPENVINO_LAYERS}
            rows.append({**about, "type": kind, "batch": batch, **found})
            print(json.dumps(rows[-1]), flush=True)
    options.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
