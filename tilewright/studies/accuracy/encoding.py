"""How a model's text becomes tokens: by its own files, whatever version of Transformers reads them.

Transformers 5.17 splits words of Gemma's GGUF file into more tokens than its tokenizer has for them
(" world" into three), which triples the perplexity, and neither it nor 5.22 heeds that the
file asks for a token before every text. So files are read by ``golden.llm``; the tokenizer of a
folder, which Transformers takes as it stands, is read by Transformers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.golden.llm.gguf_file import gguf_tokenizer
from tilewright.golden.llm.start import Start, start_of_folder

__all__ = ["Encoding", "encoding_of"]


@dataclass(frozen=True)
class Encoding:
    """``encode`` gives the tokens of a text alone; ``start`` is what may stand before them."""

    encode: Callable[[str], list[int]]
    start: Start


def encoding_of(path: Path, tokenizers: Any) -> Encoding:
    """Of a GGUF file or a folder; ``tokenizers`` is ``AutoTokenizer`` of Transformers.

    Transformers also splits the words of a file whose manner of splitting is not known here.
    """
    if path.is_dir():
        theirs = tokenizers.from_pretrained(path, local_files_only=True)
        return Encoding(_by(theirs), start_of_folder(path))
    ours, start = gguf_tokenizer(path)
    if ours is not None:
        return Encoding(lambda text: ours.encode(text).tolist(), start)
    theirs = tokenizers.from_pretrained(path.parent, gguf_file=path.name, local_files_only=True)
    return Encoding(_by(theirs), start)


def _by(tokenizer: Any) -> Callable[[str], list[int]]:
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False))
