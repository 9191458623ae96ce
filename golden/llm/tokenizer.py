"""Text to tokens and back, with the vocabulary of a model file.

``BytePairs`` (GPT-2 and later): text is split into words by a pattern; the UTF-8 bytes of a word,
each written as one printable character, are merged pair by pair in the order of the merges.
``Pieces`` (SentencePiece): the whole text, with a mark for spaces, is merged in the order of the
pieces' scores; characters without a piece become tokens for their bytes. User-defined pieces, such
as several spaces of Gemma, are matched before any merge.

Names of control tokens in a text are plain text, and no token is added before it.
"""

import heapq
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any
from unicodedata import category

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.golden.params.block import require

# Patterns of words, applied one after the other. L and N are the classes of letters and numbers,
# which Python's regular expressions lack.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?[<L>]+| ?[<N>]+| ?[^\s<L><N>]+|\s+(?!\S)|\s+"
PATTERNS = {
    "gpt-2": (_GPT2,),
    "smollm": (r"[<N>]|[^<N>]+", _GPT2),  # every digit is a word
    "llama-bpe": (
        r"'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]|[^\r\n<L><N>]?[<L>]+|[<N>]{1,3}"
        r"| ?[^\s<L><N>]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}
PATTERNS["qwen2"] = (PATTERNS["llama-bpe"][0].replace("{1,3}", ""),)  # every digit is a word
SPACE = "\u2581"  # SentencePiece's mark for a space


class Tokenizer(ABC):
    """``tokens`` are the texts of the tokens by their numbers, in the file's own spelling."""

    def __init__(self, tokens: Sequence[str]):
        self.tokens = tuple(tokens)
        self.numbers = {token: k for k, token in enumerate(self.tokens)}

    @abstractmethod
    def encode(self, text: str) -> NDArray[np.int64]:
        """Numbers of the tokens of ``text``."""

    @abstractmethod
    def content(self, token: int) -> bytes:
        """The bytes of a token."""

    def _number(self, token: str) -> int:
        require(token in self.numbers, f"the tokenizer has no token for {token!r} of this text")
        return self.numbers[token]

    def decode(self, ids: ArrayLike) -> str:
        """The text; bytes that are no UTF-8, such as half a character, become U+FFFD."""
        content = b"".join(self.content(k) for k in np.asarray(ids).tolist())
        return content.decode(errors="replace")


class BytePairs(Tokenizer):
    """``merges`` in the order they are tried; ``splitting`` is a key of ``PATTERNS``."""

    def __init__(self, tokens: Sequence[str], merges: Sequence[Sequence[str]], splitting: str):
        super().__init__(tokens)
        if splitting not in PATTERNS:
            known = ", ".join(PATTERNS)
            raise ValueError(f"splitting {splitting!r} of words is not supported; {known} are")
        self.merges = tuple((first, second) for first, second in merges)
        self.splitting = splitting
        self._ranks = {pair: k for k, pair in enumerate(self.merges)}
        self._words: dict[str, list[int]] = {}  # encoded before

    def encode(self, text: str) -> NDArray[np.int64]:
        ids: list[int] = []
        for word in split(self.splitting, text):
            if word not in self._words:
                self._words[word] = self._encode_word(word)
            ids += self._words[word]
        return np.array(ids, np.int64)

    def content(self, token: int) -> bytes:
        letters = _byte_letters()[1]
        spelled = self.tokens[token]
        if all(letter in letters for letter in spelled):
            return bytes(letters[letter] for letter in spelled)
        return spelled.encode()  # a control token

    def _encode_word(self, word: str) -> list[int]:
        letters = _byte_letters()[0]
        parts = [letters[byte] for byte in word.encode()]
        whole = "".join(parts)
        if self.splitting == "llama-bpe" and whole in self.numbers:
            return [self.numbers[whole]]  # its words need no merges where they are tokens
        while len(parts) > 1:
            ranked = [
                (self._ranks[pair], k)
                for k, pair in enumerate(pairwise(parts))
                if pair in self._ranks
            ]
            if not ranked:
                break
            _, k = min(ranked)
            parts[k : k + 2] = [parts[k] + parts[k + 1]]
        return [self._number(part) for part in parts]


class Pieces(Tokenizer):
    """``scores`` of the pieces that may arise by a merge; the highest is merged first.

    ``whole`` are user-defined tokens, matched first, at each place the longest; a file spells them
    with spaces, or with the mark for them.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        scores: Mapping[str, float],
        *,
        space_first: bool,
        whole: Sequence[int] = (),
    ):
        super().__init__(tokens)
        self.scores = scores
        self.space_first = space_first  # a space is put before the text
        self.whole = tuple(whole)
        self._whole = {self.tokens[k].replace(" ", SPACE): k for k in self.whole}
        lengths: dict[str, set[int]] = {}  # by the first character
        for text in filter(None, self._whole):
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {letter: sorted(some, reverse=True) for letter, some in lengths.items()}

    def encode(self, text: str) -> NDArray[np.int64]:
        marked = text.replace(" ", SPACE)
        if self.space_first and marked:
            marked = SPACE + marked
        ids: list[int] = []
        end = 0  # of what is encoded
        for first, text in self._found(marked):
            ids += [*self._encoded(marked[end:first]), self._whole[text]]
            end = first + len(text)
        return np.array([*ids, *self._encoded(marked[end:])], np.int64)

    def _found(self, text: str) -> Iterator[tuple[int, str]]:
        place = 0
        while self._lengths and place < len(text):
            sizes = self._lengths.get(text[place], ())
            some = (text[place : place + size] for size in sizes)
            piece = next((piece for piece in some if piece in self._whole), "")
            if piece:
                yield place, piece
            place += max(len(piece), 1)

    def _encoded(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in self._merged(text):
            if piece in self.numbers:
                ids.append(self.numbers[piece])
            else:
                ids += [self._number(f"<0x{byte:02X}>") for byte in piece.encode()]
        return ids

    def content(self, token: int) -> bytes:
        spelled = self.tokens[token]
        if byte := re.fullmatch(r"<0x([0-9A-F]{2})>", spelled):
            return bytes([int(byte[1], 16)])
        return spelled.replace(SPACE, " ").encode()

    def _merged(self, text: str) -> list[str]:
        """Characters joined by the best pair first, of equal ones the leftmost."""
        parts = list(text)
        after = [*range(1, len(parts)), -1]
        before = list(range(-1, len(parts) - 1))
        heap: list[tuple[float, int, str]] = []

        def offer(left: int) -> None:
            if left >= 0 and after[left] >= 0:
                joined = parts[left] + parts[after[left]]
                if joined in self.scores:
                    heapq.heappush(heap, (-self.scores[joined], left, joined))

        for k in range(len(parts) - 1):
            offer(k)
        while heap:
            _, left, joined = heapq.heappop(heap)
            right = after[left] if parts[left] else -1
            if right < 0 or parts[left] + parts[right] != joined:
                continue  # one of the two has been merged with another since
            parts[left], parts[right] = joined, ""
            after[left] = after[right]
            if after[left] >= 0:
                before[after[left]] = left
            offer(before[left])
            offer(left)
        return [part for part in parts if part]


def split(splitting: str, text: str) -> Iterator[str]:
    """Words of a text, which together are the text."""
    first, *further = _compiled(splitting)
    for match in first.finditer(text):
        words = [match[0]]
        for pattern in further:
            words = [word for piece in words for word in pattern.findall(piece)]
        yield from words


@cache
def _compiled(splitting: str) -> tuple[re.Pattern[str], ...]:
    letters, numbers = _unicode_class("L"), _unicode_class("N")
    return tuple(
        re.compile(pattern.replace("<L>", letters).replace("<N>", numbers))
        for pattern in PATTERNS[splitting]
    )


@cache
def _unicode_class(major: str) -> str:
    """Ranges of the characters whose category begins with ``major``, for a set of a pattern."""
    members = [k for k in range(sys.maxunicode + 1) if category(chr(k))[0] == major]
    starts = [k for k, before in zip(members, [-1, *members], strict=False) if k != before + 1]
    ends = [k for k, then in zip(members, [*members[1:], -1], strict=True) if then != k + 1]
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(starts, ends, strict=True))


@cache
def _byte_letters() -> tuple[list[str], dict[str, int]]:
    """The printable character of every byte, and back: Latin-1 where that prints, else above."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    letters = [chr(k) if k in printable else chr(next(others)) for k in range(256)]
    return letters, {letter: k for k, letter in enumerate(letters)}


_KINDS: dict[str, tuple[type[Tokenizer], tuple[str, ...]]] = {  # and what each is made of
    "byte pairs": (BytePairs, ("tokens", "merges", "splitting")),
    "pieces": (Pieces, ("tokens", "scores", "space_first", "whole")),
}


def tokenizer_data(tokenizer: Tokenizer | None) -> dict[str, Any] | None:
    """JSON data for :func:`tokenizer_of`; None for a model without a tokenizer."""
    for kind, (of, names) in _KINDS.items():
        if isinstance(tokenizer, of):
            return {"kind": kind} | {name: getattr(tokenizer, name) for name in names}
    return None


def tokenizer_of(data: dict[str, Any] | None) -> Tokenizer | None:
    """Undo :func:`tokenizer_data`; what earlier versions compiled has no ``whole``."""
    if data is None:
        return None
    of, names = _KINDS[data["kind"]]
    return of(**{name: data[name] for name in names if name in data})
