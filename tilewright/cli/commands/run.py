"""``tilewright run``: text from a language model on an accelerator, and its cost."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base.console import growing_text, print_json, progress, remark
from tilewright.base.errors import CommandError
from tilewright.base.files import require_folder
from tilewright.cli.models import (
    add_compile_options,
    model_name,
    options_of,
    refuse_compile_options,
)
from tilewright.cli.options import MEMORY, adder, refuse
from tilewright.cli.tables import Columns, print_records
from tilewright.golden.machine.moves import LATENCY

if TYPE_CHECKING:
    from tilewright.compiler.folder import ModelFolder
    from tilewright.compiler.generate import Generation, Session
    from tilewright.compiler.timing import LayerTime
    from tilewright.golden.llm.tokenizer import Tokenizer
    from tilewright.studies.on_cpu import CpuGeneration

NAME = "run"
HELP = "generate text with a language model on Harmonia, on Anda, or on a CPU with a DECA"
EXAMPLE = "tilewright run tiny-llama --on harmonia:small --context 32 --prompt Hello --tokens 3"
_OF_ACCELERATORS = ("latency", "memory", "layers", "trace", "state", "memory_error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add prompts, accelerator, and outputs."""
    add = adder(parser)
    add(
        "model MODEL",
        "a model, which is compiled first, a folder that tilewright compile has written, or a"
        " file of tilewright pack",
        type=model_name,
    )
    add(
        "--on BLOCK",
        "harmonia, anda, or deca: a CPU whose weight tiles a DECA decompresses [harmonia, or"
        " what MODEL was compiled or packed for]",
    )
    text = "beginning of the text; several sequences are decoded together"
    add("--prompt TEXT...", text, required=True)
    add("--tokens N", "largest number of tokens; the model may end its answer earlier", 16)
    add("--chat", "take each prompt as a user's message, laid out by the model's chat template")
    add("--ignore-end", "continue after the model ends its answer")
    add("--temperature T", "sampling temperature; 0 takes the likeliest token", 0.0)
    add("--seed N", "random seed of sampling", 0)
    add("--memory M", MEMORY)
    add("--latency N", f"latency of the accelerator's flat memory in cycles [{LATENCY}]")
    add(
        "--rtl",
        "run every program on the simulated Verilog too, or on a CPU the first tiles of every"
        " matrix of a layer; any difference is an error",
    )
    add("--layers", "show the cycles of every layer of the last step")
    add("--trace FILE", "write a timeline of all units, which Perfetto and chrome://tracing open")
    add("--state FILE", "save the run here after every token; continue from the file if it exists")
    add("--memory-error N", "inject a memory error in the middle of generated token N")
    add_compile_options(parser)
    _add_cpu_options(parser)


def _add_cpu_options(parser: argparse.ArgumentParser) -> None:
    """Add how weights lie in a CPU's memory, and which CPU it is."""
    add = adder(parser)
    add("--scheme X", "with --on deca: compression of weights, such as int4 or bf8_50%% [mxfp4]")
    add("--head-scheme X", "with --on deca: scheme of the vocabulary head [bf16]")
    add("--system S", "with --on deca: the server [spr-hbm]")


def run(args: argparse.Namespace) -> int:
    from tilewright.compiler.text import check_temperature

    prompts = args.prompt
    if args.tokens < 1:
        raise CommandError(f"--tokens must be at least 1, not {args.tokens}")
    if args.seed < 0:
        raise CommandError(f"--seed must be at least 0, not {args.seed}")
    check_temperature(args.temperature)
    for output in filter(None, (args.trace, args.state)):
        require_folder(output)
    if args.model.endswith(".safetensors"):
        if not _is_cpu(args.on or "deca"):
            raise CommandError(f"{args.model} has tiles of DECA; leave out --on {args.on}")
        args.on = args.on or "deca"
    if _is_cpu(args.on):
        if len(prompts) > 1:
            raise CommandError("on a CPU there is one --prompt")
        args.prompt = prompts[0]
        return _run_on_cpu(args)
    refuse(args, ("scheme", "head_scheme", "system"), "goes with --on deca")
    from tilewright.studies.sessions import session_of

    folder = _folder(args, prompts)
    _remark_on(folder.tokenizer)
    session = session_of(
        folder,
        prompts,
        latency=args.latency,
        memory=args.memory,
        rtl=args.rtl,
        chat=args.chat,
        state=args.state,
    )
    timing = session.timing(trace=args.trace is not None) if args.layers or args.trace else None
    done = _generated(args, session, prompts)
    if args.json:
        layers = timing.layers if args.layers and timing else None
        results = [replace(own, layers=layers) for own in done]
        print_json(results if len(results) > 1 else results[0])
    else:
        _print_generations(done)
        if args.layers and timing:
            _print_layers(timing.layers)
    if args.trace and timing:
        timing.write(args.trace)
    return 0


def _remark_on(tokenizer: "Tokenizer | None") -> None:
    if tokenizer is None:
        remark("tilewright: the model has no tokenizer: bytes of the prompt are its tokens")


def _generated(
    args: argparse.Namespace, session: "Session", prompts: list[str]
) -> "list[Generation]":
    """Generate; a single text is shown as it grows, several after the last token."""
    from tilewright.compiler.text import Text

    runner = session.runner
    session.check(args.tokens, temperature=args.temperature, memory_error=args.memory_error)
    texts = [Text(runner.folder.tokenizer) for _ in prompts]
    whole = [
        ("" if args.chat else prompt) + "".join(map(text.add, begun))
        for prompt, text, begun in zip(prompts, texts, session.begun, strict=True)
    ]
    timed = 0  # programs that the last status counted

    def status() -> str:
        nonlocal timed
        runs, timed = runner.runs[timed:], len(runner.runs)
        rate = session.accelerator.clock / sum(run.cycles for run in runs)
        block = runner.folder.manifest["target"]
        return f"{runner.position} tokens in the cache, {rate:.0f} tokens/s on {block}"

    with growing_text(sys.stderr if args.json else sys.stdout) as show:

        def add(sequence: int, token: int) -> None:
            piece = texts[sequence].add(token)
            whole[sequence] += piece
            if len(prompts) == 1:
                show(piece, status())

        if len(prompts) == 1:
            show(whole[0], f"reading a prompt of {len(session.prompts[0])} tokens")
        done = session.generate(
            args.tokens,
            temperature=args.temperature,
            seed=args.seed,
            ends=() if args.ignore_end else runner.folder.chat.ends,
            memory_error=args.memory_error,
            tell=add,
        )
        if len(prompts) > 1:
            show("\n".join(whole), "")
    return done


def _folder(args: argparse.Namespace, prompts: list[str]) -> "ModelFolder":
    """Return the compiled model; prompts that do not fit are refused before it is compiled."""
    from tilewright.compiler.compile import CONTEXT, compiled_folder
    from tilewright.compiler.folder import open_folder
    from tilewright.compiler.text import check_context
    from tilewright.golden.llm.load import load_model
    from tilewright.studies.sessions import encoder

    path = Path(args.model)
    if (path / "manifest.json").is_file():
        refuse_compile_options(args, f"{path} is compiled already")
        return open_folder(path, target=args.on)
    options = options_of(args, args.on or "harmonia")
    model = load_model(args.model, lazy=True)
    encode = encoder(model, model.config.vocab_size, chat=args.chat)
    longest = max(len(encode(prompt)) for prompt in prompts)
    check_context(longest, args.tokens, options.context or CONTEXT)
    if args.sequences is None:
        options = replace(options, sequences=len(prompts))
    with progress("compiling") as tick:
        path = compiled_folder(args.model, options, lambda doing: tick(doing, steps=0))
    return open_folder(path, target=args.on)


def _print_generations(all_done: "Sequence[Generation]") -> None:
    """Print phases with their cycles, bytes and energy, and where cycles and energy go."""
    done = all_done[0]
    print(f"\n{done.model} on {done.block} at {done.clock_mhz:g} MHz\n")
    phases = [("prefill", done.prefill)]
    if len(all_done) > 1:
        phases = [(f"prefill {k + 1}", own.prefill) for k, own in enumerate(all_done)]
    phases.append(("decode", done.decode))
    costs = [(name, cost) for name, cost in phases if cost is not None]
    columns: Columns = {
        **{"PHASE": "0", "TOKENS": "1.tokens", "CYCLES": "1.cycles:,"},
        **{"MS": "1.milliseconds:.3f", "TOKENS/S": "1.tokens_per_second:.1f"},
        "MB READ": lambda row: f"{row[1].bytes_read / 1e6:.3f}",
        "MB WRITTEN": lambda row: f"{row[1].bytes_written / 1e6:.3f}",
        "MJ": lambda row: f"{sum(row[1].millijoules.values()):.4f}",
        "BOUND BY": "1.bound",
    }
    print_records(costs, columns)
    print()
    shares = {name.upper(): f"1.shares.{name}:.1%" for name in costs[0][1].shares}
    print_records(costs, {"PHASE": "0"} | shares)


def _print_layers(layers: "list[LayerTime]") -> None:
    """Print the cycles of every layer of a step, by operation."""
    print()
    parts = {name.upper(): f"by_part.{name}:," for name in layers[0].by_part}
    print_records(layers, {"LAYER": "layer", "CYCLES": "cycles:,"} | parts)


def _is_cpu(block: str | None) -> bool:
    """Whether the block that was named is a DECA."""
    return block is not None and block.partition(":")[0].partition(",")[0] == "deca"


def _run_on_cpu(args: argparse.Namespace) -> int:
    from tilewright.compiler.text import Text
    from tilewright.studies.on_cpu import CpuOptions, CpuSession

    refuse_compile_options(args, "on a CPU --scheme and --head-scheme say how weights are stored")
    refuse(args, _OF_ACCELERATORS, "goes with an accelerator's programs")
    given = {"scheme": args.scheme, "head": args.head_scheme, "system": args.system}
    options = CpuOptions(block=args.on, **{k: v for k, v in given.items() if v is not None})
    with progress("compressing") as tick:
        session = CpuSession(
            args.model,
            args.prompt,
            options,
            lambda name: tick(name, steps=0),
            tokens=args.tokens,
            chat=args.chat,
        )
        rtl = session.check_on_rtl(tick=lambda name: tick(name, steps=0)) if args.rtl else None
    _remark_on(session.model.tokenizer)
    shown, text = sys.stderr if args.json else sys.stdout, Text(session.model.tokenizer)
    print("" if args.chat else args.prompt, end="", flush=True, file=shown)
    try:
        done = session.generate(
            args.tokens,
            temperature=args.temperature,
            seed=args.seed,
            ends=() if args.ignore_end else session.model.chat.ends,
            rtl=rtl,
            tell=lambda token: print(text.add(token), end="", flush=True, file=shown),
        )
    finally:
        print(file=shown)
    if args.json:
        print_json(done)
    else:
        _print_cpu_generation(done)
    for line in done.remarks:
        remark(f"tilewright: {line}")
    return 0


def _print_cpu_generation(done: "CpuGeneration") -> None:
    """Print phases with time, bytes and energy, kinds of matrices, and tiles of the RTL."""
    print(
        f"\n{done.model} on {done.system} at {done.clock_ghz:g} GHz with {done.block}:"
        f" {done.scheme}, the head {done.head}; times and energy are predicted\n"
    )
    costs = [("prefill", done.prefill), ("decode", done.decode)]
    columns: Columns = {
        **{"PHASE": "0", "TOKENS": "1.tokens", "MS": "1.milliseconds:.3f"},
        "MS OF PRODUCTS": "1.milliseconds_of_products:.3f",
        "TOKENS/S": "1.tokens_per_second:.1f",
        "MB READ": lambda row: f"{row[1].bytes_read / 1e6:.3f}",
        "J": lambda row: f"{sum(row[1].joules.values()):.4f}",
        "BOUND BY": "1.bound",
    }
    print_records([(name, cost) for name, cost in costs if cost is not None], columns)
    print()
    of_matrix = {
        **{"MATRIX": "name", "COUNT": "matrices", "TILES": "tiles:,"},
        **{"BYTES/TILE": "bytes_per_tile:.1f", "CYCLES/TILE": "cycles_per_tile:.2f"},
    }
    print_records(done.matrices, of_matrix)
    for run in done.rtl or ():
        print(
            f"RTL: {run['tiles']} tiles of {run['matrix']} equal golden's,"
            f" {run['cycles_per_tile']:.2f} cycles a tile"
        )
