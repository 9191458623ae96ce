"""What the workloads on a decoder layer of a language model share: operands, runs, the answer."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_json, progress
from tilewright.base.errors import CommandError
from tilewright.studies.runs.deca_presets import write_record

if TYPE_CHECKING:
    from tilewright.golden.llm.block import Attention, Module

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


def block_asked_for(args: argparse.Namespace) -> Any:
    """Parameters of the accelerator, by ``--block`` or else its default preset."""
    from tilewright.golden.params.resolve import resolve

    name = args.block.removesuffix(".block")
    args.on = args.on or name
    params = resolve(args.on)
    if params.block != name:
        raise CommandError(f"{args.block} runs on a block {name}, not {params.block}")
    return params


def read_layer(
    args: argparse.Namespace, count: int, tokens: int = TOKENS
) -> tuple[dict[str, "Module"], "Attention"]:
    """Modules of the layer for the last ``count`` tokens of a text, attention for all of them."""
    import numpy as np

    from tilewright.golden.llm.block import captured
    from tilewright.golden.llm.model import Model, ModelError
    from tilewright.golden.llm.text import default_text

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


def run_parts(
    args: argparse.Namespace, parts: Sequence[tuple[str, Callable[[], dict[str, Any] | None]]]
) -> list[dict[str, Any]] | None:
    """Results of the named parts, one after the other; None as soon as a bench failed."""
    results = []
    with progress(args.block, len(parts)) as tick:
        for name, run in parts:
            tick(name, steps=0)
            result = run()
            if result is None:
                return None
            results.append(result)
            tick()
    return results


def finish(
    args: argparse.Namespace,
    options: str,
    answer: dict[str, Any],
    parts: tuple[str, list[dict[str, Any]] | None],
    show: Callable[[dict[str, Any]], None],
) -> int:
    """Prints the answer with its named parts, writes it down if asked to.

    ``options`` make the same run again. The exit code: all parts are there and equal golden's.
    """
    name, results = parts
    if results is None:
        return 1
    answer = {
        **answer,
        "equal": all(result["equal"] for result in results),
        name: results,
    }
    if args.update_record:
        command = f"tilewright simulate {args.block}{options} --update-record"
        write_record(args.block.replace(".", "_"), {"command": command, **answer})
    print_json(answer) if args.json else show(answer)
    return 0 if answer["equal"] else 1


def verdict(answer: dict[str, Any]) -> str:
    return "equal golden's" if answer["equal"] else "DIFFER from golden's"
