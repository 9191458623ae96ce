"""The formats in PyTorch on a GPU: bits, bandwidth of conversions, time of perplexities."""

from tilewright.report.html import Markup, code, note, paragraph, section, table
from tilewright.report.measured import missing
from tilewright.studies.accuracy.model_tables import conversion_rows, gpu_record, time_rows

__all__ = ["gpu_section"]


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
