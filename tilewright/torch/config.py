"""Formats of a model's layers: configurations that a user writes.

None of this needs PyTorch: a recipe can be read and checked without it.
"""

from dataclasses import MISSING, asdict, dataclass, fields
from functools import cached_property
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeAlias, get_args, get_origin

from tilewright.golden.deca.scheme import resolve_scheme
from tilewright.golden.formats import FORMATS, NumberFormat, is_own, name_of, resolve_format
from tilewright.golden.params.block import require
from tilewright.golden.params.deca import ScaleKind
from tilewright.golden.params.formats import BlockFormat
from tilewright.golden.params.harmonia import CacheParams
from tilewright.golden.params.names import unknown

KINDS = ("qkv", "o", "u", "d")  # the four kinds of linear modules: A_qkv, A_o, A_u, A_d
# Last part of a module's name -> what kind of linear module it is.
KIND_OF_NAME = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value", "c_attn"), "qkv"),
    **dict.fromkeys(("o_proj", "out_proj"), "o"),
    **dict.fromkeys(("gate_proj", "up_proj", "gate_up_proj", "fc1", "dense_h_to_4h", "c_fc"), "u"),
    **dict.fromkeys(("down_proj", "fc2", "dense_4h_to_h"), "d"),
}
MX_GROUP = 32  # of the OCP specification


@dataclass(frozen=True)
class BlockActivation:
    group: int
    bits: int


@dataclass(frozen=True)
class IntegerWeight:
    """Integers with an fp16 scale per group of inputs, rounded to nearest."""

    bits: int
    group: int


@dataclass(frozen=True)
class InScheme:
    """Either operand in a compression scheme of DECA, pruned to ``density`` if that is given."""

    scheme: str
    density: float | None = None


@dataclass(frozen=True)
class OwnFormat:
    """Either operand in a format that numpy converts, such as the user's own."""

    form: NumberFormat


@dataclass(frozen=True)
class LinearFormat:
    """The computation of one linear layer: both operands, and how they are multiplied."""

    activation: BlockActivation | InScheme | OwnFormat | None
    weight: IntegerWeight | InScheme | OwnFormat | None
    straight_through: bool = False
    pad: bool = False

    @property
    def group(self) -> int | None:
        """Inputs that share an exponent or a scale, if activations are converted."""
        if isinstance(self.activation, OwnFormat):
            return self.activation.form.group
        if isinstance(self.activation, InScheme):
            return resolve_scheme(self.activation.scheme).config.group
        return None if self.activation is None else self.activation.group


@dataclass(frozen=True)
class _Config:
    method: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            wanted = _words(field.type)
            require(_fits(value, field.type), f"{field.name} must be {wanted}, not {value!r}")

    def as_dict(self) -> dict[str, Any]:
        """Plain data from which ``config_from`` makes the same configuration."""
        return {"method": self.method, **asdict(self)}

    def linear(self, kind: str) -> LinearFormat:
        """Return the computation of a linear module of ``kind``."""
        raise NotImplementedError

    @property
    def attention(self) -> "HarmoniaConfig | None":
        """The configuration itself if attention is converted too."""
        return None


@dataclass(frozen=True)
class AndaConfig(_Config):
    """Anda: mantissa lengths of the inputs of the four kinds of linear modules, integer weights.

    Parameters
    ----------
    qkv, o, u, d
        Mantissa bits, 1..16, of inputs of the projections of queries, keys and values, the
        output projection of attention, the up (and gate) and the down projection.
    group
        Activations that share an exponent.
    weight_bits, weight_group
        Weights become integers of as many bits with an fp16 scale per group of inputs, rounded to
        nearest; ``weight_bits=None`` leaves them as they are.
    straight_through
        Let gradients pass the conversions unchanged: quantisation-aware training.
    pad
        Allow widths that are no multiple of ``group``: the last group is filled with zeros.
    """

    method: ClassVar[str] = "anda"
    qkv: int
    o: int
    u: int
    d: int
    group: int = 64
    weight_bits: int | None = 4
    weight_group: int = 128
    straight_through: bool = False
    pad: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind in KINDS:
            BlockFormat(group=self.group, mantissa_bits=getattr(self, kind))
        _check_weights(self)

    def linear(self, kind: str) -> LinearFormat:
        return _block_linear(self, getattr(self, kind))


@dataclass(frozen=True)
class HarmoniaConfig(_Config):
    """Harmonia: block floating point in linear modules and attention, a cache by the age of tokens.

    Parameters
    ----------
    activation_bits
        Mantissa bits of everything but cached keys and values.
    group
        Values that share an exponent.
    initial, local
        Tokens at the beginning and at the end of a sequence that keep the longer mantissas.
    key_bits, value_bits
        Mantissa bits of keys and values, recent ones first.
    offset_channels
        Channels of K, of each head, whose offset is subtracted online.
    attention_only
        Leave the linear modules as they are.
    site_bits
        Mantissa bits before the linear modules (qkv, o, u, d), of queries and of attention's
        weights, where they differ; they replace ``activation_bits``.
    weight_bits, weight_group, straight_through, pad
        As of ``AndaConfig``.
    """

    method: ClassVar[str] = "harmonia"
    activation_bits: int = 8
    group: int = 32
    initial: int = 32
    local: int = 64
    key_bits: tuple[int, int] = (8, 4)
    value_bits: tuple[int, int] = (8, 4)
    offset_channels: int = 8
    attention_only: bool = False
    weight_bits: int | None = 4
    weight_group: int = 128
    straight_through: bool = False
    pad: bool = False
    site_bits: tuple[int, int, int, int, int, int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("key_bits", "value_bits", "site_bits"):  # a recipe has lists
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        for bits in self.bits:
            BlockFormat(group=self.group, mantissa_bits=bits)
        _check_weights(self)
        self.cache  # noqa: B018  refuses an invalid cache

    @cached_property  # made before a graph is traced
    def cache(self) -> CacheParams:
        """The format of cached keys and values."""
        return CacheParams(
            group=self.group,
            initial=self.initial,
            local=self.local,
            key_bits=self.key_bits,
            value_bits=self.value_bits,
            offset_channels=self.offset_channels,
        )

    @property
    def bits(self) -> tuple[int, int, int, int, int, int]:
        """Mantissa bits of all but keys and values, in the order of ``site_bits``."""
        a = self.activation_bits
        return self.site_bits or (a, a, a, a, a, a)

    def linear(self, kind: str) -> LinearFormat:
        if self.attention_only:
            return LinearFormat(None, None)
        return _block_linear(self, self.bits[KINDS.index(kind)])

    @property
    def attention(self) -> "HarmoniaConfig":
        return self


@dataclass(frozen=True)
class DecaConfig(_Config):
    """DECA: weights in a compression scheme, decompressed to bf16; activations stay as they are.

    Parameters
    ----------
    scheme
        A scheme as ``tilewright pack --scheme`` takes it: bf8, mxfp4, nf4, int4, "int3,group=64".
    density
        Share of the weights that stay, by magnitude; None prunes nothing.
    straight_through
        As of ``AndaConfig``.
    """

    method: ClassVar[str] = "deca"
    scheme: str = "mxfp4"
    density: float | None = None
    straight_through: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            not resolve_scheme(self.scheme).config.int8,
            f"{self.scheme}: tiles of int8 multiply int8 activations, which no layer has",
        )
        require(
            self.density is None or 0 <= self.density <= 1,
            f"density must be 0..1, not {self.density!r}",
        )

    def linear(self, kind: str) -> LinearFormat:
        return LinearFormat(None, InScheme(self.scheme, self.density), self.straight_through)


@dataclass(frozen=True)
class FormatConfig(_Config):
    """A number format by its name, the user's own among them; groups lie along the inputs.

    Parameters
    ----------
    weights, activations
        A format of the OCP specification (``mxfp8_e5m2``, ``mxfp8_e4m3``, ``mxfp6_e3m2``,
        ``mxfp6_e2m3``, ``mxfp4`` or ``mxint8``), another of ``tilewright compare format``, or a
        class with ``bits``, ``encode`` and ``decode``: itself, or named as ``FILE.py:CLASS`` or
        ``MODULE:CLASS``. None leaves the operand as it is.
    straight_through, pad
        As of ``AndaConfig``.
    """

    method: ClassVar[str] = "format"
    weights: str | None = "mxfp4"
    activations: str | None = None
    straight_through: bool = False
    pad: bool = False

    def __post_init__(self) -> None:
        for name in ("weights", "activations"):
            chosen = getattr(self, name)
            if isinstance(chosen, type):
                object.__setattr__(self, name, name_of(chosen))
        super().__post_init__()
        self._operands  # noqa: B018  refuses an invalid format

    @cached_property  # a file is read once
    def _operands(self) -> tuple[InScheme | OwnFormat | None, InScheme | OwnFormat | None]:
        return _operand(self.activations), _operand(self.weights)

    def linear(self, kind: str) -> LinearFormat:
        return LinearFormat(*self._operands, straight_through=self.straight_through, pad=self.pad)


def _operand(name: str | None) -> InScheme | OwnFormat | None:
    if name is None:
        return None
    if name in MX_SCHEMES:
        return InScheme(MX_SCHEMES[name])
    if name in FORMATS or is_own(name):
        return OwnFormat(resolve_format(name))
    raise ValueError(unknown("format", name, [*MX_SCHEMES, *FORMATS]))


# Names of the specification -> schemes; an MXINT8 element is an integer of 2^-6 under its scale.
MX_SCHEMES = {
    **{name: name for name in ("mxfp8_e5m2", "mxfp8_e4m3", "mxfp6_e3m2", "mxfp6_e2m3", "mxfp4")},
    "mxint8": f"int8,scale={ScaleKind.E8M0.value},group={MX_GROUP}",
}
Config: TypeAlias = AndaConfig | HarmoniaConfig | DecaConfig | FormatConfig
CONFIGS: dict[str, type[Config]] = {
    config.method: config for config in (AndaConfig, HarmoniaConfig, DecaConfig, FormatConfig)
}


def config_from(data: dict[str, Any]) -> Config:
    """The configuration that ``as_dict`` gave, from a recipe."""
    method = data.get("method")
    if method not in CONFIGS:
        raise ValueError(unknown("method", str(method), CONFIGS))
    kind = CONFIGS[method]
    given = {key: value for key, value in data.items() if key != "method"}
    known = [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            raise ValueError(unknown(f"setting of {method}", name, known))
    for field in fields(kind):
        require(field.default is not MISSING or field.name in given, f"{field.name} is missing")
    return kind(**given)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of the type that a field is declared with; a recipe has lists."""
    if get_origin(kind) is UnionType:
        return any(_fits(value, each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        return (
            isinstance(value, tuple | list)
            and len(value) == len(kinds)
            and all(map(_fits, value, kinds))
        )
    if kind in NUMBERS:
        return isinstance(value, NUMBERS[kind]) and not isinstance(value, bool)
    return isinstance(value, kind)


NUMBERS: dict[type, type] = {int: Integral, float: Real}
WORDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}


def _words(kind: Any) -> str:
    if get_origin(kind) is UnionType:
        return " or ".join(_words(each) for each in get_args(kind))
    if get_origin(kind) is tuple:
        return f"{len(get_args(kind))} whole numbers"
    return "None" if kind is NoneType else WORDS[kind]


def _check_weights(config: AndaConfig | HarmoniaConfig) -> None:
    require(
        config.weight_group % config.group == 0,
        f"a weight group of {config.weight_group} is no multiple of the activations'"
        f" {config.group}",
    )
    bits = config.weight_bits
    require(bits is None or 2 <= bits <= 8, f"weight_bits must be 2..8, not {bits!r}")


def _block_linear(config: AndaConfig | HarmoniaConfig, bits: int) -> LinearFormat:
    weight = None
    if config.weight_bits is not None:
        weight = IntegerWeight(config.weight_bits, config.weight_group)
    activation = BlockActivation(config.group, bits)
    return LinearFormat(activation, weight, config.straight_through, config.pad)
