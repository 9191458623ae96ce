"""Operands of one decoder layer of a language model, for the workloads that stream them."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.console import print_json
from tilewright.errors import CommandError
from tilewright.workloads.deca_presets import write_record

if TYPE_CHECKING:
    from golden.llm.block import Attention, Module

TOKENS = 128  # of the text; they calibrate the weights


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "anda.block, deca.block, harmonia.block",
        "one decoder layer of a language model, fed with real text",
    )
    group.add_argument(
        "--model",
        default="smollm2",
        metavar="MODEL",
        help="GGUF file, Hugging Face folder or name [smollm2]",
    )
    group.add_argument("--layer", type=int, default=0, metavar="L", help="of the model [0]")


def read_layer(
    args: argparse.Namespace, count: int, tokens: int = TOKENS
) -> tuple[dict[str, "Module"], "Attention"]:
    """Modules of the layer for the last ``count`` tokens of a text, attention for all of them."""
    import numpy as np

    from golden.llm.block import captured
    from golden.llm.model import Model, ModelError
    from golden.llm.text import default_text

    try:
        model = Model.load(args.model)
        if model.tokenizer is None:  # it reads random tokens
            rng = np.random.default_rng(args.seed)
            ids = rng.integers(0, model.config.vocabulary, tokens)
        else:
            ids = model.tokenizer.encode(default_text()[: 16 * tokens])[:tokens]
        return captured(model, ids, args.layer, count)
    except ModelError as error:
        raise CommandError(str(error)) from None


def finish(
    args: argparse.Namespace,
    options: str,
    answer: dict[str, Any],
    show: Callable[[dict[str, Any]], None],
) -> int:
    """Prints the answer, writes it down if asked to; ``options`` make the same run again."""
    if args.update_record:
        command = f"tilewright simulate {args.block}{options} --update-record"
        write_record(args.block.replace(".", "_"), {"command": command, **answer})
    print_json(answer) if args.json else show(answer)
    return 0 if answer["equal"] else 1
