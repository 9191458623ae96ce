"""The formats in PyTorch on a GPU: bits, bandwidth of conversions, time of perplexities."""

import json
from typing import Any

from tilewright.report.html import Markup, code, note, paragraph, section, table
from tilewright.report.measured import missing
from tilewright.studies.accuracy.records import RECORDS

__all__ = ["CPU_BITS", "conversion_rows", "gpu_record", "gpu_section", "time_rows"]

GPU_RECORD = RECORDS.parents[1] / "records" / "torch_gpu.json"
CPU_BITS = GPU_RECORD.with_name("torch_cpu.json")  # the comparison of bits alone


def gpu_section() -> Markup:
    """What one run on a GPU has measured."""
    record = gpu_record()
    if record is None:
        return missing("the formats on a GPU", "python -m benchmarks.torch_bench --device cuda")
    compared = sum(row.get("elements", 0) for row in record["bits"])
    differ = sum(row.get("differ", 0) for row in record["bits"])
    wrong = [row["conversion"] for row in record["bits"] if row.get("differ")]
    where = f" They are of: {', '.join(wrong)}." if wrong else ""
    return section(
        "On a GPU",
        paragraph(
            f"Measured on one {record['device']} with PyTorch {record['pytorch']}, conversions by"
            f" {record['kernels']}. Of {compared:,} elements that were compared with the golden"
            f" models, {differ:,} differ.{where} Conversions read and write bf16; the copy is of"
            " the same tensor in the same run, the last column is of the bandwidth that the vendor"
            " states."
        ),
        table(
            ("Conversion", "TB/s", "Of the copy", "Of the stated bandwidth"),
            conversion_rows(record),
        ),
        paragraph(
            "Perplexity of models of these shapes with random weights in bf16, windows of"
            f" {record['perplexities'][0]['window']} tokens, Anda at 7/6/7/7 bits in every linear"
            " module. Compiled times are beside compiled plain ones."
        ),
        table(
            ("Shape", "Windows at a time", "Format", "Per window, ms", "Times plain"),
            time_rows(record),
        ),
        note(
            "Source:",
            code("tilewright/studies/records/torch_gpu.json"),
            "made by",
            code(record["command"]),
        ),
    )


def gpu_record() -> dict[str, Any] | None:
    """The record of a GPU, if it has been made."""
    return json.loads(GPU_RECORD.read_text()) if GPU_RECORD.exists() else None


def conversion_rows(record: dict[str, Any]) -> list[list[str]]:
    """Conversion, terabytes per second, share of a copy and of what the vendor says."""
    return [
        [
            row["conversion"],
            f"{row['gigabytes_per_second'] / 1000:.2f}",
            f"{row['share_of_copy']:.0%}",
            f"{row['share_of_peak']:.0%}",
        ]
        for row in record["conversions"]
        if "error" not in row
    ]


def time_rows(record: dict[str, Any]) -> list[list[str]]:
    """Shape, windows at a time, format, milliseconds of a window, and times plain."""
    return [
        [
            found["shape"].upper(),
            str(found["batch"]),
            row["format"],
            f"{1000 * row['seconds'] / found['windows']:.1f}",
            f"{row['times_plain']:.2f}",
        ]
        for found in record["perplexities"]
        for row in found["times"]
        if "error" not in row
    ]
