"""The weights of a real decoder layer through the simulated DECA element.

Each projection is packed in each scheme, streamed through the element's loaders, and the tiles that
come out are multiplied with the activations that the projection meets in real text; the product is
compared with golden's, bit for bit.
"""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from tilewright.base.console import print_table
from tilewright.base.errors import CommandError
from tilewright.studies.runs.deca_gemm import run_matrix
from tilewright.studies.runs.llm_block import (
    block_asked_for,
    finish,
    read_layer,
    run_parts,
    verdict,
)

if TYPE_CHECKING:
    from tilewright.golden.llm.block import Module

TOKENS = 16  # columns of a matrix unit's tile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("deca.block")
    group.add_argument(
        "--schemes",
        default="mxfp4,bf8@0.5",
        metavar="NAME[@DENSITY],...",
        help="of `tilewright pack`, each for all weights [mxfp4,bf8@0.5]",
    )


def run(args: argparse.Namespace) -> int:
    params = block_asked_for(args)
    schemes = [_scheme(text) for text in args.schemes.split(",")]
    modules, _ = read_layer(args, TOKENS)
    parts = [
        (f"{name} in {scheme}", partial(_run_matrix, args, params, module, name, scheme, density))
        for scheme, density in schemes
        for module in modules.values()
        for name in module.weights
    ]
    answer = {"block": params.slug, "model": args.model, "layer": args.layer}
    options = f" --schemes {args.schemes}"
    return finish(args, options, answer, ("matrices", run_parts(args, parts)), _print)


def _scheme(text: str) -> tuple[str, float | None]:
    name, _, share = text.partition("@")
    try:
        return name, float(share) if share else None
    except ValueError:
        raise CommandError(f"a density is a number such as 0.5, not {share!r}") from None


def _run_matrix(
    args: argparse.Namespace,
    params: Any,
    module: "Module",
    name: str,
    scheme: str,
    density: float | None,
) -> dict[str, Any] | None:
    import numpy as np

    from tilewright.golden.bits import encode
    from tilewright.golden.deca import compress, resolve_scheme
    from tilewright.golden.params.formats import BF16

    matrix = compress(module.weights[name], resolve_scheme(scheme), density)
    if matrix.scheme.config.int8:
        raise CommandError(f"{scheme}: the activations of a language model are no int8")
    activations = encode(BF16, module.activations.view(np.float16).T.astype(np.float64))
    result = run_matrix(args, params, matrix, activations)
    return result and {"matrix": name, "density": density, **result}


def _print(answer: dict[str, Any]) -> None:
    print(
        f"layer {answer['layer']} of {answer['model']} on {answer['block']}:"
        f" products {verdict(answer)}\n"
    )
    print_table(
        ("MATRIX", "SHAPE", "SCHEME", "DENSITY", "TILES", "BYTES", "CYCLES", "A TILE", "EQUAL"),
        [
            (
                m["matrix"],
                "x".join(map(str, m["shape"][:2])),
                m["scheme"],
                "-" if m["density"] is None else f"{m['density']:g}",
                f"{m['tiles']:,}",
                f"{m['bytes']:,}",
                f"{m['cycles']:,}",
                f"{m['cycles_per_tile']:.2f}",
                "yes" if m["equal"] else "no",
            )
            for m in answer["matrices"]
        ],
    )
