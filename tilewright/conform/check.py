"""Compare an implementation of a format with it, code by code, and name the rules that it follows.

An encoder takes float32 values (rows, values), whole blocks along the last axis, and returns one of

- codes, or codes and scales, or codes, scales and the scale of the tensor. Codes are whole numbers,
  one for each value; scales are patterns, or floats that are their values;
- the bytes of blocks, for formats of GGUF files;
- floats: the values as the format holds them, for implementations that only simulate it.

A decoder takes what an encoder returns and gives the values. Arrays may be NumPy's, with types of
ml_dtypes, or PyTorch's. A block of zeros may have any scale.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.base.table import Reported, Table
from tilewright.conform.vectors import cases_to_encode, odd_rows, values_of, vectors
from tilewright.golden.bits import decode, encode
from tilewright.golden.lowbit import Encoded, LowBit, Rules
from tilewright.golden.lowbit_table import lowbit
from tilewright.golden.params.block import require
from tilewright.golden.params.formats import BF16

Implementation = Callable[..., Any]
SAMPLE = 2048  # values of a case that deviate, and others, on which rules are tried
TENSORS = 6  # likewise, where a tensor has a scale of its own


class Outcome(NamedTuple):
    """Numbers of the codes and values of the scales, None where only values are known."""

    numbers: NDArray[np.float64] | None
    scales: NDArray[np.float64] | None
    values: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Check:
    """``wrong`` of ``compared`` codes and scales, or values, differ; the first one in words."""

    name: str
    compared: int
    wrong: int
    first: str = ""


@dataclass(frozen=True, kw_only=True)
class Report(Reported):
    """``rules``: where the implementation follows others than the specification's.

    They explain all deviations, or all but ``unexplained``.
    """

    subject: str
    format: str
    checks: list[Check]
    rules: dict[str, str] = field(default_factory=dict)
    unexplained: int = 0
    example: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> int:
        return sum(check.wrong for check in self.checks)

    @property
    def verdict(self) -> str:
        """``exact``, the rules that explain everything, or what deviates."""
        if not self.wrong:
            return "exact"
        rules = ", ".join(f"{name}={choice}" for name, choice in self.rules.items())
        if not self.unexplained:
            return rules
        first = next(check for check in self.checks if check.wrong)
        least = f" ({self.unexplained} with {rules})" if rules else ""
        return f"{self.wrong} deviate{least}, first {first.name}: {first.first}"

    @property
    def report(self) -> Table:
        columns = {"check": "name", "compared": "compared", "wrong": "wrong", "first": "first"}
        return Table.of(self.checks, columns)

    def __str__(self) -> str:
        lines = [f"{self.subject}, {self.format}: {self.verdict}", "", str(self.report)]
        return "\n".join([*lines, *([""] if self.example else []), *self.example, *self.notes])


def assert_conforms(
    encode: Implementation | None, format: str, decode: Implementation | None = None, **rules: str
) -> None:
    """Raise AssertionError with the report unless codes are right by the format's rules.

    ``rules`` are other than the specification's, such as ``rounding="nearest-away"``.
    """
    found = check(format, encode, decode, rules=rules)
    assert not found.wrong, f"\n{found}"


def check(
    format: str,
    encode: Implementation | None = None,
    decode: Implementation | None = None,
    subject: str = "",
    rules: Rules | None = None,
    explain: bool = True,
) -> Report:
    """Run every vector of a format through an encoder, a decoder or both.

    ``rules`` are other than the specification's. ``explain``: look for rules that explain
    deviations, and for a small example.
    """
    fmt = lowbit(format)
    base = fmt.completed(rules or {})
    require(bool(encode or decode), "give an encoder, a decoder or both")
    require(bool(fmt.rules) or not encode, f"{fmt.name} has no rule of encoding; give a decoder")
    checks: list[Check] = []
    notes: list[str] = []
    closest: dict[str, str] = {}
    left, example, runs = 0, [], []
    if decode:
        checks.append(_check_decoder(fmt, decode))
        left += checks[-1].wrong
    if encode:
        for name, inputs in cases_to_encode(fmt):
            runs.append((name, inputs, _run(fmt, encode, inputs)))
        wrong = [_check_encoder(fmt, base, *run) for run in runs]
        checks += _merged(wrong)
        if fmt.group > 1:
            row_check, row_note = _check_rows(fmt, base, encode)
            checks += row_check
            notes += row_note
            notes += _specials(fmt, encode)
        count = sum(check.wrong for check in wrong)
        if count and not explain:
            left += count
        elif count:
            closest, remaining = _explain(fmt, base, runs)
            left += remaining
            example = _example(fmt, base | closest if remaining else base, encode, runs)
    if encode and fmt.group > 1 and any(check.wrong for check in row_check):
        left += sum(check.wrong for check in _check_rows(fmt, {**base, **closest}, encode)[0])
    changed = {name: choice for name, choice in closest.items() if choice != base[name]}
    return Report(
        subject=subject or getattr(encode or decode, "__name__", "implementation"),
        format=fmt.name,
        checks=checks,
        rules=changed,
        unexplained=left,
        example=example,
        notes=notes,
    )


# Results of an implementation.


def _plain(array: Any) -> NDArray:
    """A NumPy array of whole numbers, float32 or float64; types of 8 bits as their patterns."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
        kind = str(array.dtype)
        if "float8" in kind or "float4" in kind:
            array = array.view(__import__("torch").uint8)
        array = (array.float() if "float" in kind and "8" not in kind else array).numpy()
    array = np.asarray(array)
    if array.dtype.kind == "V":  # a type of ml_dtypes
        array = array.view(np.uint8) if array.dtype.itemsize == 1 else array.astype(np.float32)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _run(fmt: LowBit, encoder: Implementation, inputs: NDArray[np.float32]) -> Outcome | str:
    """An encoder's result for values, or why it is not in the format."""
    try:
        with np.errstate(all="ignore"):
            returned = encoder(inputs.copy())
    except Exception as error:  # somebody else's function may raise anything
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
    parts = [_plain(p) for p in (returned if isinstance(returned, tuple) else (returned,))]
    try:
        return _outcome(fmt, parts, inputs.shape)
    except ValueError as error:
        return str(error)


def _outcome(
    fmt: LowBit, parts: list[NDArray], shape: tuple[int, ...], packed: bool = True
) -> Outcome:
    codes = parts[0]
    if packed and fmt.unpack and codes.dtype.kind in "iu":
        blocks = (len(codes), -1, fmt.block_bytes)
        found, steps, _ = fmt.unpack(codes.astype(np.uint8).reshape(blocks))
        numbers = fmt.numbers[found].reshape(shape)
        values = values_of(fmt, Encoded(codes, np.zeros(0, np.int64)))
        return Outcome(numbers, steps[..., 0], values)
    require(codes.shape == shape, f"gives {codes.shape} codes for {shape} values")
    if codes.dtype.kind == "f" and len(parts) == 1:
        values = codes.astype(np.float64)
        return Outcome(values if fmt.group == 1 else None, None, values)
    if codes.dtype.kind == "f":
        numbers = codes.astype(np.float64)
    else:
        codes = codes.astype(np.int64)
        low = int(codes.min(initial=0))
        codes = codes & ((1 << fmt.bits) - 1) if low < 0 else codes
        most = int(codes.max(initial=0))
        require(most < len(fmt.numbers), f"gives code {most} of {len(fmt.numbers)}")
        numbers = fmt.numbers[codes]
    numbers = numbers if fmt.signed_zero else numbers + 0.0
    if fmt.scale is None:
        return Outcome(numbers, None, numbers)
    require(len(parts) > 1, f"gives no scales; {fmt.name} has one for {fmt.group} values")
    groups = (shape[0], -(-shape[1] // fmt.group))
    require(parts[1].size == groups[0] * groups[1], f"gives {parts[1].shape} scales, not {groups}")
    steps, zeros = parts[1].reshape(groups).astype(np.float64), np.zeros(groups, np.int64)
    if parts[1].dtype.kind != "f":
        scales = parts[1].reshape(groups).astype(np.int64) & ((1 << fmt.scale_bits) - 1)
        zeros = scales & ((1 << fmt.zero_bits) - 1)
        steps = fmt.scale_values(scales >> fmt.zero_bits)
    steps = steps * (float(parts[2].ravel()[0]) if len(parts) > 2 else 1.0)
    each = (np.repeat(a, fmt.group, axis=-1)[:, : shape[1]] for a in (zeros, steps))
    numbers = numbers - next(each)
    with np.errstate(invalid="ignore"):
        return Outcome(numbers, steps, numbers * next(each))


def _expected(fmt: LowBit, rules: Rules, inputs: NDArray[np.float32]) -> Outcome:
    codes, scales, tensor = fmt.encode(inputs, **rules)
    parts: list[NDArray] = [codes, scales, np.asarray(tensor)] if fmt.scale else [codes]
    return _outcome(fmt, parts, inputs.shape, packed=False)


# Comparison.


def _same(got: NDArray, want: NDArray) -> NDArray[np.bool_]:
    return ((got == want) & (np.signbit(got) == np.signbit(want))) | (
        np.isnan(got) & np.isnan(want)
    )


def _differences(fmt: LowBit, got: Outcome, want: Outcome) -> tuple[NDArray, NDArray]:
    """Whether each value's code, and each block's scale, differs."""
    groups = (len(want.values), -1, fmt.group)
    assert want.numbers is not None
    if got.numbers is None:
        wrong = ~_same(got.values.astype(np.float32), want.values.astype(np.float32))
        if not fmt.signed_zero:
            wrong &= (want.values != 0) | (got.values != 0)
        return wrong, np.zeros((len(wrong), 0), bool)
    wrong = ~_same(got.numbers, want.numbers)
    if want.scales is None or got.scales is None:
        return wrong, np.zeros((len(wrong), 0), bool)
    nothing = (want.values.reshape(groups) == 0).all(-1)
    harmless = np.repeat(nothing, fmt.group, axis=-1) & (got.values == 0)
    scales = ~_same(got.scales, want.scales) & ~(nothing & np.isfinite(got.scales))
    return wrong & ~harmless, scales


def _check_encoder(
    fmt: LowBit, rules: Rules, name: str, inputs: NDArray, got: Outcome | str
) -> Check:
    blocks = inputs.size // fmt.group if fmt.scale else 0
    total = inputs.size + blocks
    if isinstance(got, str):
        return Check(name=name, compared=total, wrong=total, first=got)
    want = _expected(fmt, rules, inputs)
    codes, scales = _differences(fmt, got, want)
    return Check(
        name=name,
        compared=total if got.scales is not None else inputs.size,
        wrong=int(codes.sum() + scales.sum()),
        first=_first(fmt, inputs, got, want, codes, scales),
    )


def _first(
    fmt: LowBit, inputs: NDArray, got: Outcome, want: Outcome, codes: NDArray, scales: NDArray
) -> str:
    if scales.any():
        r, g = (int(k) for k in np.argwhere(scales)[0])
        assert got.scales is not None and want.scales is not None
        largest = np.abs(inputs[r, g * fmt.group : (g + 1) * fmt.group]).max()
        ours, theirs = want.scales[r, g], got.scales[r, g]
        return f"largest {largest:.9g}: scale {theirs:.9g}, not {ours:.9g}"
    if codes.any():
        r, c = (int(k) for k in np.argwhere(codes)[0])
        pair = (got.values, want.values) if got.numbers is None else (got.numbers, want.numbers)
        assert pair[0] is not None and pair[1] is not None
        return f"{inputs[r, c]:.9g} is {pair[0][r, c]:.9g}, not {pair[1][r, c]:.9g}"
    return ""


def _merged(checks: list[Check]) -> list[Check]:
    """One check for the pieces of a case, which are called CASE.NUMBER."""
    found: dict[str, Check] = {}
    for one in checks:
        name = one.name.partition(".")[0]
        before = found.get(name, Check(name=name, compared=0, wrong=0))
        found[name] = Check(
            name=name,
            compared=before.compared + one.compared,
            wrong=before.wrong + one.wrong,
            first=before.first or one.first,
        )
    return list(found.values())


def _check_decoder(fmt: LowBit, decoder: Implementation) -> Check:
    case = vectors(fmt.name)[0]
    codes, scales, tensor = case.encoded
    arguments: list[Any] = [codes.astype(np.uint16 if fmt.bits > 8 else np.uint8)]
    if fmt.scale and not fmt.unpack:
        arguments.append(scales.astype(np.min_scalar_type((1 << fmt.scale_bits) - 1)))
        arguments += [tensor] if fmt.tensor_reach else []
    size = case.values.size
    try:
        with np.errstate(all="ignore"):
            returned = decoder(*arguments)
        got = _plain(returned)
        require(got.shape == case.values.shape, f"gives {got.shape} values for {codes.shape} codes")
    except Exception as error:  # somebody else's function may raise anything
        text = f"{type(error).__name__}: {error}"[:200]
        return Check(name="codes", compared=size, wrong=size, first=text)
    with np.errstate(over="ignore"):
        want = case.values.astype(np.float32)
        if "bfloat16" in str(getattr(returned, "dtype", "")):
            want = decode(BF16, encode(BF16, case.values)).astype(np.float32)
        wrong = ~_same(got.astype(np.float32), want)
    first = ""
    if wrong.any():
        r, c = (int(k) for k in np.argwhere(wrong)[0])
        where = f"block {r} value {c}" if fmt.unpack else f"code {codes[r, c]:#x}"
        if scales.size:
            where += f" with scale {scales[r, c // fmt.group]:#x}"
        distinct = (
            "" if fmt.unpack else f"; {len(np.unique(codes[wrong]))} of {len(fmt.numbers)} codes"
        )
        first = f"{where} is {got[r, c]:.9g}, not {want[r, c]:.9g}{distinct}"
    return Check(name="codes", compared=size, wrong=int(wrong.sum()), first=first)


def _check_rows(
    fmt: LowBit, rules: Rules, encoder: Implementation
) -> tuple[list[Check], list[str]]:
    """Rows that end in a short block: a block never holds values of two rows."""
    inputs = odd_rows(fmt)
    got = _run(fmt, encoder, inputs)
    if isinstance(got, str):
        return [], [f"rows of {inputs.shape[1]} values are refused: {got}"]
    padded = np.pad(inputs, ((0, 0), (0, -inputs.shape[1] % fmt.group)))
    want = _expected(fmt, rules, padded).values[:, : inputs.shape[1]]
    wrong = got.values.astype(np.float32) != want.astype(np.float32)
    flat = _expected(fmt, rules, np.pad(inputs.ravel(), (0, -inputs.size % fmt.group))[np.newaxis])
    straddles = wrong.any() and np.array_equal(flat.values[0, : inputs.size], got.values.ravel())
    r, c = (int(k) for k in np.argwhere(wrong)[0]) if wrong.any() else (0, 0)
    first = f"row {r} value {c}: {inputs[r, c]:.9g} is {got.values[r, c]:.9g}, not {want[r, c]:.9g}"
    first = f"blocks straddle rows; {first}" if straddles else first if wrong.any() else ""
    return [Check(name="row ends", compared=wrong.size, wrong=int(wrong.sum()), first=first)], []


def _specials(fmt: LowBit, encoder: Implementation) -> list[str]:
    """Treatment of NaN and infinity, on which specifications of blocks are silent."""
    found = []
    for name, special in (("NaN", np.nan), ("infinity", np.inf)):
        inputs = np.ones((1, fmt.group), np.float32)
        inputs[0, 1] = special
        got = _run(fmt, encoder, inputs)
        if isinstance(got, str):
            found.append(f"{name} in a block: {got}")
            continue
        rest = np.delete(got.values[0], 1)
        others = "NaN" if np.isnan(rest).all() else f"{rest[0]:.9g}"
        found.append(f"{name} in a block of ones: {got.values[0, 1]:.9g}, the others {others}")
    return found


# Explanation.


def _explain(
    fmt: LowBit, base: Rules, runs: list[tuple[str, NDArray, Outcome | str]]
) -> tuple[dict[str, str], int]:
    """The rules under which the fewest codes deviate, and how many then do in all cases."""
    good = [(inputs, got) for _, inputs, got in runs if not isinstance(got, str)]
    lost = sum(inputs.size for _, inputs, got in runs if isinstance(got, str))
    if not good:
        return {}, lost

    def score(rules: Rules, parts: list[tuple[NDArray, Outcome]]) -> int:
        found = 0
        for inputs, got in parts:
            codes, scales = _differences(fmt, got, _expected(fmt, rules, inputs))
            found += int(codes.sum() + scales.sum())
        return found

    # All combinations of some axes, and from the three best ones one axis after another; then from
    # the best one again, on rows that still deviate.
    pairs = [name for name in ("scale", "quotient", "overflow") if name in fmt.axes]
    starts = [
        {**base, **dict(zip(pairs, choices, strict=True))}
        for choices in product(*(fmt.axes[name] for name in pairs))
    ]
    rules = dict(base)
    for _ in range(2):
        sample = [part for pair in good for part in _sample(fmt, rules, *pair)]
        if fmt.tensor_reach:
            sample = sample[:: max(1, len(sample) // TENSORS)]
        best: list[tuple[int, int, dict[str, str]]] = []
        first = sorted((score(r, sample), k, r) for k, r in enumerate(starts))[:3]
        for least, _, trial in first if len(starts) > 1 else [(score(rules, sample), 0, rules)]:
            for name in fmt.axes:
                for choice in fmt.axes[name]:
                    now = score(trial | {name: choice}, sample)
                    if now < least:
                        trial, least = trial | {name: choice}, now
            best.append((least, sum(trial[n] != base[n] for n in trial), trial))
        rules = min(best, key=lambda found: found[:2])[2]
        starts = [rules]
    return rules, lost + score(rules, good)


def _sample(
    fmt: LowBit, base: Rules, inputs: NDArray, got: Outcome
) -> Iterator[tuple[NDArray, Outcome]]:
    """Blocks that deviate and some others; a whole tensor, if it deviates, that has a scale."""
    codes, scales = _differences(fmt, got, _expected(fmt, base, inputs))
    if fmt.tensor_reach:
        if codes.any() or scales.any():
            yield inputs, got
        return
    shape = (-1, fmt.group)
    wrong = codes.reshape(shape).any(-1)
    if scales.size:
        wrong |= scales.ravel()
    special = ~np.isfinite(inputs.reshape(shape)).all(-1)
    places = [np.flatnonzero(w) for w in (wrong, special, ~wrong)]
    count = max(4, SAMPLE // fmt.group)
    some = np.unique(np.concatenate([a[:: max(1, len(a) // count)] for a in places]))
    numbers = None if got.numbers is None else got.numbers.reshape(shape)[some]
    steps = None if got.scales is None else got.scales.reshape(-1, 1)[some]
    yield inputs.reshape(shape)[some], Outcome(numbers, steps, got.values.reshape(shape)[some])


def _example(
    fmt: LowBit, rules: Rules, encoder: Implementation, runs: list[tuple[str, NDArray, Any]]
) -> list[str]:
    """The smallest block found that shows a deviation from ``rules``, in words."""

    def deviates(block: NDArray) -> tuple[Outcome, Outcome] | None:
        got = _run(fmt, encoder, block[np.newaxis])
        if isinstance(got, str):
            return None
        want = _expected(fmt, rules, block[np.newaxis])
        return (got, want) if any(d.any() for d in _differences(fmt, got, want)) else None

    for _, inputs, got in runs:
        if isinstance(got, str):
            continue
        codes, scales = _differences(fmt, got, _expected(fmt, rules, inputs))
        groups = codes.reshape(len(codes), -1, fmt.group).any(-1)
        places = np.argwhere(groups | scales if scales.size else groups)
        blocks = inputs.reshape(len(inputs), -1, fmt.group)
        if fmt.group == 1 and len(places):  # the shortest significand
            words = blocks[tuple(places.T)].ravel().view(np.int32)
            places = places[[np.argmax(words & -words)]]
        for place in places[:3]:
            block = blocks[tuple(place)].copy()
            if (pair := deviates(block)) is None:
                continue
            block, pair = _smaller(block, pair, deviates)
            return _words(fmt, block, *pair)
    return []


def _smaller(block: NDArray, pair: Any, deviates: Callable[[NDArray], Any]) -> tuple[NDArray, Any]:
    """Zero as much as possible, and shorten what is left."""
    run = len(block) // 2
    while run:
        for start in range(0, len(block), run):
            trial = block.copy()
            trial[start : start + run] = 0
            if not np.array_equal(trial, block) and (shown := deviates(trial)):
                block, pair = trial, shown
        run //= 2
    for place in np.flatnonzero(block):
        for drop in (22, 20, 18, 16, 12, 8):
            trial = block.copy()
            trial.view(np.int32)[place] &= -1 << drop
            if shown := deviates(trial):
                block, pair = trial, shown
                break
    return block, pair


def _words(fmt: LowBit, block: NDArray, got: Outcome, want: Outcome) -> list[str]:
    places = np.flatnonzero(block) if block.any() else np.arange(1)
    codes, _ = _differences(fmt, got, want)
    places = np.union1d(places, np.flatnonzero(codes[0]))[:8]

    def line(name: str, outcome: Outcome) -> str:
        scale = "" if outcome.scales is None else f" with scale {outcome.scales[0, 0]:.9g}"
        numbers = outcome.values if outcome.numbers is None else outcome.numbers
        return f"  {name:15}" + " ".join(f"{numbers[0, k]:.9g}" for k in places) + scale

    inside = f"a block of {fmt.group}, zero but for values {', '.join(map(str, places))}"
    return [
        f"example: {inside}" if fmt.group > 1 else "example:",
        "  input          " + " ".join(f"{block[k]:.9g}" for k in places),
        line("expected", want),
        line("implementation", got),
    ]
