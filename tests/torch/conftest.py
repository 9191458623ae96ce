"""Without PyTorch and Transformers, optional extras, nothing here is collected."""

from importlib.util import find_spec

if find_spec("torch") is None or find_spec("transformers") is None:
    collect_ignore_glob = ["*.py"]
