"""The formats as a quantizer of Transformers: ``from_pretrained(..., quantization_config=...)``.

``import tilewright.torch.pretrained`` registers the method ``tilewright``. Weights are loaded and
saved as they are; the format is put in after loading and its settings go into ``config.json``, so a
saved folder opens with the same format again wherever this module has been imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformers.quantizers import HfQuantizer
from transformers.quantizers.auto import register_quantization_config, register_quantizer
from transformers.utils.quantization_config import QuantizationConfigMixin

from tilewright.torch.config import Config, config_from
from tilewright.torch.quantize import quantize_, restore_

METHOD = "tilewright"


class TilewrightConfig(QuantizationConfigMixin):
    """Arguments of ``quantize_`` as a quantisation configuration of Transformers.

    Parameters
    ----------
    settings
        An ``AndaConfig``, ``HarmoniaConfig``, ``DecaConfig`` or ``FormatConfig``, or its data.
    modules, skip
        As of ``quantize_``.
    """

    def __init__(
        self,
        settings: Config | Mapping[str, Any],
        modules: Mapping[str, str] | None = None,
        skip: Sequence[str] = (),
        quant_method: str = METHOD,
    ):
        if quant_method != METHOD:
            raise ValueError(f"quant_method must be {METHOD!r}, not {quant_method!r}")
        self.quant_method = METHOD
        self.settings = dict(settings) if isinstance(settings, Mapping) else settings.as_dict()
        self.modules = dict(modules or {})
        self.skip = list(skip)
        self.format  # noqa: B018  refuses invalid ones

    @property
    def format(self) -> Config:
        return config_from(self.settings)


class TilewrightQuantizer(HfQuantizer):
    """Puts a format into a model once its weights are loaded."""

    quantization_config: TilewrightConfig

    def _process_model_after_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        config = self.quantization_config
        quantize_(model, config.format, modules=config.modules, skip=config.skip)
        return model

    def _dequantize(self, model: Any, dtype: Any = None) -> Any:
        restore_(model)
        return model

    def is_serializable(self) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        return bool(self.quantization_config.format.straight_through)

    is_qat_trainable = is_trainable

    @property
    def is_compileable(self) -> bool:
        return True


register_quantization_config(METHOD)(TilewrightConfig)
register_quantizer(METHOD)(TilewrightQuantizer)
