"""What ``tilewright kv`` learns factors with, and its result as a recipe."""

import argparse
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import remark

if TYPE_CHECKING:
    from tilewright.studies.accuracy.folder_subject import Smoothed
    from tilewright.studies.accuracy.harmonia import CacheResult, Variant
    from tilewright.studies.accuracy.subject import Subject

__all__ = ["check_recipe", "learner", "save_cache_recipe", "with_factors_that_fit"]

TOLERANCE = 0.01


def check_recipe(args: argparse.Namespace) -> None:
    """Refuse options of a recipe that would have no effect, before minutes of measuring."""
    from tilewright.golden.llm.search import check_tolerance
    from tilewright.golden.params.block import require

    require(args.recipe is None or args.device is not None, "--recipe needs --device")
    require(args.tolerance is None or args.recipe is not None, "--tolerance needs --recipe")
    check_tolerance(args.tolerance or 0.0)


def learner(args: argparse.Namespace, subject: "Subject") -> "Callable[[], Smoothed] | None":
    """What learns the factors of a model of Transformers; the golden engine learns its own."""
    if args.device is None:
        return None
    from tilewright.studies.accuracy.folder_subject import smoothed_folder

    @cache  # learned once, and only if the log lacks what needs them
    def learn() -> "Smoothed":
        return smoothed_folder(subject, steps=args.steps, seed=args.seed)

    return learn


def with_factors_that_fit(
    args: argparse.Namespace, subject: "Subject", wanted: "list[Variant]"
) -> "list[Variant]":
    """``wanted`` without the variants with factors where the model's attention can have none."""
    if args.device is None:
        from tilewright.studies.accuracy.harmonia import takes_factors
    else:
        from tilewright.studies.accuracy.folder_subject import takes_factors
    if takes_factors(subject):
        return wanted
    remark("tilewright: no factors pass the norms of queries and keys; their rows are left out")
    return [variant for variant in wanted if not variant.smooth]


def save_cache_recipe(
    args: argparse.Namespace,
    subject: "Subject",
    wanted: "Sequence[Variant]",
    result: "CacheResult",
    learn: "Callable[[], Smoothed] | None",
) -> None:
    """Write the smallest cache within the tolerance as a recipe, if a path is given."""
    if args.recipe is None:
        return
    from tilewright.studies.accuracy.folder_subject import cache_recipe
    from tilewright.studies.accuracy.harmonia import smallest

    path: Path = args.recipe
    best = smallest(result, wanted, TOLERANCE if args.tolerance is None else args.tolerance)
    if best is None:
        remark(f"tilewright: no cache is within the tolerance, so {path} is not written")
        return
    name, fmt, smooth = best
    cache_recipe(subject, fmt, learn() if learn is not None and smooth else None).save(path)
    remark(f"tilewright: {path} has {name}")
