"""Share the codebook of Codebook-CLIP and IL-CLIP: the parameters, the head, and the contrast of a batch.

B images, D dim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compclip.methods import _check
from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features


@dataclass(frozen=True)
class CodebookConfig(_check.CaptionConfig):
    """Parameters of a method with a codebook."""

    codes: int = 4096  # example/clip_fdt/config_cc3m.yaml: sd_num
    code_width: int = 512  # sd_dim
    temperature: float = 1000.0  # of the responses to queries; sd_temperature, constant by sd_T_decay_w: 1

    def __post_init__(self) -> None:
        """Raise UserError for values out of range."""
        _check.at_least(self, 1, "codes", "code_width")
        _check.at_least(self, 1e-3, "temperature")


def create_codebook(width: int, cfg: CodebookConfig) -> nn.Module:
    """Return the codes and the networks that query them; a finished model keeps both."""
    from compclip.model.heads import Codebook

    codebook = Codebook(width, cfg.codes, cfg.code_width)
    codebook.temperature.fill_(cfg.temperature)
    return codebook


def contrast(f: Features) -> Tensor:
    """Return CLIP's contrast of the sums of codes of pictures and texts, a scalar."""
    image_BD = f.heads.map_images(f.image_BD, f.patch_BND)
    text_BD = f.heads.map_texts(f.text_BD, f.token_BTD, f.token_mask_BT)
    return losses.clip(image_BD, text_BD, f.scale)
