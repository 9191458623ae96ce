"""Milliseconds a token of other programs on the same shape, without network.

    python -m benchmarks.rivals.rivals SOURCES WORK -o OUT.json [--layers 32] [--vocabulary 128256]

SOURCES holds what was carried here: ``llama.tar.xz`` (llama.cpp's sources, folder ``lc``), the
wheel of ``gguf``, and where it is wanted ``openvino.tar.xz`` (OpenVINO with its CPU plugin). WORK
is a folder with room for the model files: 30 GB of all three types.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from benchmarks.race import now, write
from tilewright.kernels.machine import describe_machine

HERE = Path(__file__).parent
OPENVINO_LAYERS = 8  # its linear layers alone: its GGUF frontend gives graphs without a cache
SECONDS = 90  # after which a program has failed


def prepare(sources: Path, work: Path) -> dict[str, str]:
    """Unpack everything once; the environment that finds the packages."""
    packages = work / "py"
    if not packages.exists():
        packages.mkdir(parents=True)
        for wheel in sources.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(packages)
        for name, target in (("llama", work), ("openvino", packages)):
            archive = sources / f"{name}.tar.xz"
            if archive.exists():
                target.mkdir(exist_ok=True)
                with tarfile.open(archive) as tar:
                    tar.extractall(target, filter="data")
    return {**os.environ, "PYTHONPATH": str(packages)}


def write_models(options: argparse.Namespace, environment: dict[str, str]) -> None:
    """Files of every type that are not there yet, side by side."""
    size = (str(options.layers), str(options.vocabulary))
    files = {kind: options.work / f"{kind}.gguf" for kind in options.types}
    writers = [
        subprocess.Popen([sys.executable, HERE / "gguf_model.py", f, kind, *size], env=environment)
        for kind, f in files.items()
        if not f.exists()
    ]
    build_llama(options.work)  # meanwhile
    if any(writer.wait() for writer in writers):
        raise SystemExit("a model file was not written")


def build_llama(work: Path) -> None:
    """llama.cpp and the program that times it, unless they are there."""
    if not (work / "build" / "llama_decode").exists():
        subprocess.run(["bash", HERE / "build_llama.sh", work / "lc", work / "build"], check=True)


def command_of(arguments: list[str], options: argparse.Namespace) -> str:
    """The command line with names in the place of this machine's folders."""
    folders = {str(options.sources): "SOURCES", str(options.work): "WORK"}
    folders[str(options.output)] = "OUT.json"
    words = [folders.get(word, word) for word in arguments]
    return " ".join(["python -m benchmarks.rivals.rivals", *words])


def milliseconds(command: list[Any], environment: dict[str, str]) -> dict[str, Any]:
    """The last line of a program that is a number, or why there is none."""
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
    except OSError as error:
        return {"failed": str(error)}
    found = re.findall(r"^\d+\.\d+$", done.stdout, re.MULTILINE)  # some say goodbye after it
    if not found or done.returncode:
        said = done.stderr.strip().split("\n")[-1][:300]
        return {"failed": f"exit status {done.returncode}: {said}"}
    return {"milliseconds": float(found[-1])}


def main() -> None:
    """Measure every type with every program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--types", nargs="*", default=["bf16", "q8_0", "q4_0"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--context", type=int, default=128, help="tokens before those timed")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=1, help="of llama.cpp; the least counts")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--openvino", nargs="*", default=[], help="bf16, int8 and int4, if any")
    parser.add_argument("--prepare", action="store_true", help="build, write model files, and stop")
    options = parser.parse_args()
    environment = prepare(options.sources, options.work)
    write_models(options, environment)
    if options.prepare:
        return
    record: dict[str, Any] = {
        "command": command_of(sys.argv[1:], options),
        "began": now(),
        "processor": describe_machine().processor,
        "layers": options.layers,
        "vocabulary": options.vocabulary,
        "context": options.context,
        "threads": options.threads,
        "rows": [],
    }

    def note(row: dict[str, Any], found: dict[str, Any]) -> None:
        record["rows"].append({**row, **found})
        print(json.dumps(record["rows"][-1]), flush=True)
        write(options.output, record)

    for kind in options.types:
        model = options.work / f"{kind}.gguf"
        for batch in options.batches:
            command = [options.work / "build" / "llama_decode", model, options.threads]
            command += [batch, options.context, options.tokens]
            tries = [milliseconds(command, environment) for _ in range(options.repeats)]
            found = min(tries, key=lambda one: one.get("milliseconds", float("inf")))
            note({"program": "llama.cpp", "type": kind, "batch": batch, "part": "tokens"}, found)
        model.unlink()
    for kind in options.openvino:
        for batch in options.batches:
            command = [sys.executable, HERE / "openvino_layers.py", kind, OPENVINO_LAYERS, batch]
            part = f"linear layers of {OPENVINO_LAYERS} decoder layers"
            row = {"program": "OpenVINO", "type": kind, "batch": batch, "part": part}
            note(row, milliseconds(command, environment))


if __name__ == "__main__":
    main()
