"""The shared codebook of Codebook-CLIP and IL-CLIP: its head, and the contrast of what it makes of a batch.

B images, D dim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compclip.train import losses

if TYPE_CHECKING:
    from torch import Tensor, nn

    from compclip.interface.features import Features


def create_codebook(width: int, codes: int, code_width: int, temperature: float) -> nn.Module:
    """Return the codes and the networks that ask them, which a finished model keeps."""
    from compclip.model.heads import Codebook

    codebook = Codebook(width, codes, code_width)
    codebook.temperature.fill_(temperature)
    return codebook


def contrast(f: Features) -> Tensor:
    """CLIP's contrast of the sums of codes that pictures and texts ask for, a scalar."""
    image_BD = f.heads.map_images(f.image_BD, f.patch_BND)
    text_BD = f.heads.map_texts(f.text_BD, f.token_BTD, f.token_mask_BT)
    return losses.clip(image_BD, text_BD, f.scale)
