"""The nearest pictures of each picture of a data set by a backbone's embeddings: cosine, itself left out.

N pictures, K neighbours, D joint dim, R and C rows and columns of a block.

Cost: every picture through the image tower once, then 2 N² D flops in blocks: at a million pictures and D = 512 some
1e15, which a large GPU does in a minute and two cores in four hours. The embeddings lie in a file (4 N D bytes: 2 GiB);
what is held at a time is a block of scores and the result, some 120 MiB beside torch and the model.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from compclip.base.errors import UserError
from compclip.data import images
from compclip.data.prepared_dataset import PreparedDataset
from compclip.data.sample import ImageLocation
from compclip.interface.views import STORED_NEIGHBOURS
from compclip.model import towers
from compclip.model.clip_model import ClipModel

BATCH = 64  # pictures that are encoded at once
AHEAD = 4 * BATCH  # pictures that are read before they are needed
ROWS, COLUMNS = 2048, 8192  # of a block of scores: 64 MiB


@dataclass(frozen=True)
class VectorFile:
    """Unit vectors in a file, and which of them are there: a picture that cannot be read has zeros."""

    file: IO[bytes]
    width: int
    there_N: Tensor

    def __len__(self) -> int:
        return len(self.there_N)

    def block(self, start: int, stop: int) -> Tensor:
        """Read vectors `start` to `stop` (exclusive) from the file."""
        size = 4 * self.width
        raw = os.pread(self.file.fileno(), (stop - start) * size, start * size)
        return torch.frombuffer(bytearray(raw), dtype=torch.float32).view(stop - start, self.width)


def compute_neighbours(model: ClipModel, data: PreparedDataset, spool: Path) -> tuple[np.ndarray, int]:
    """Return each sample's nearest ones by number, nearest first, uint32 [N, K], and the count of unreadable pictures.

    These are near to nobody. K is `STORED`, or as many others as there are. `spool` is a folder for the embeddings in
    the meantime. Raises UserError where embeddings are no numbers, or fewer than two pictures can be read.
    """
    spool.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=spool) as file:
        vectors = embed_pictures(model, data, file)
        readable = int(vectors.there_N.sum())
        if readable < 2:
            raise UserError(f"{data.folder}: {readable} of {len(data)} pictures can be read: none has a neighbour")
        near_NK = find_nearest(vectors, min(STORED_NEIGHBOURS, readable - 1), next(model.clip.parameters()).device)
    return near_NK, len(data) - readable


def embed_pictures(model: ClipModel, data: PreparedDataset, file: IO[bytes]) -> VectorFile:
    """Encode every picture in float32, and write the embeddings to `file` in the order of the samples."""
    there_N, samples_done, width = torch.zeros(len(data), dtype=torch.bool), 0, 1
    model.clip.eval()
    for pictures in _read_pictures(model, data):
        readable = [index for index, picture in enumerate(pictures) if picture]
        if readable:
            vectors_BD = _encode(model, [picture for picture in pictures if picture])
            if not torch.isfinite(vectors_BD).all():
                raise UserError(f"{model.source}: gives embeddings that are not numbers; use another backbone")
            width = vectors_BD.shape[1]
            rows_BD = torch.zeros(len(pictures), width).index_copy_(0, torch.tensor(readable), vectors_BD)
            file.seek(4 * width * samples_done)
            file.write(rows_BD.numpy().tobytes())
            there_N[samples_done : samples_done + len(pictures)][readable] = True
        samples_done += len(pictures)
    file.truncate(4 * width * len(data))
    file.flush()
    return VectorFile(file, width, there_N)


def _encode(model: ClipModel, pictures: list[Image]) -> Tensor:
    device = next(model.clip.parameters()).device
    with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return towers.encode_images(model.clip, model.pixels(pictures).to(device))[0].float().cpu()


def _read_pictures(model: ClipModel, data: PreparedDataset) -> Iterator[list[Image | None]]:
    """Yield batches of pictures as the model takes them, some read ahead; None for one that cannot be read."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting: deque[Future] = deque()
        submitted = 0
        for start in range(0, len(data), BATCH):
            while submitted < min(start + BATCH + AHEAD, len(data)):
                waiting.append(pool.submit(_load_fitted, model, data.sample(submitted).picture))
                submitted += 1
            yield [waiting.popleft().result() for _ in range(min(BATCH, len(data) - start))]


def _load_fitted(model: ClipModel, location: ImageLocation) -> Image | None:
    try:
        return model.fit_picture(images.load_image(location))
    except images.ImageError:
        return None


def find_nearest(vectors: VectorFile, count: int, device: torch.device | str = "cpu") -> np.ndarray:
    """Return the numbers of the `count` nearest readable others of each vector, uint32 [N, K], computed in blocks."""
    near_NK = np.empty((len(vectors), count), np.uint32)
    for start in range(0, len(vectors), ROWS):
        stop = min(start + ROWS, len(vectors))
        near_NK[start:stop] = _find_nearest_of_rows(vectors, start, stop, count, device).cpu().numpy()
    return near_NK


def _find_nearest_of_rows(vectors: VectorFile, start: int, stop: int, count: int, device: torch.device | str) -> Tensor:
    rows_RD = vectors.block(start, stop).to(device)
    best_RK = torch.full((stop - start, count), -torch.inf, device=device)
    number_RK = torch.zeros(stop - start, count, dtype=torch.long, device=device)
    for low in range(0, len(vectors), COLUMNS):
        high = min(low + COLUMNS, len(vectors))
        score_RC = rows_RD @ vectors.block(low, high).to(device).T
        score_RC.masked_fill_(~vectors.there_N[low:high].to(device), -torch.inf)
        itself = torch.arange(max(start, low), max(start, low, min(stop, high)), device=device)
        score_RC[itself - start, itself - low] = -torch.inf
        top_RK, place_RK = score_RC.topk(min(count, high - low), dim=1)
        both = torch.cat([best_RK, top_RK], 1), torch.cat([number_RK, place_RK + low], 1)
        best_RK, kept_RK = both[0].topk(count, dim=1)
        number_RK = both[1].gather(1, kept_RK)
    return number_RK
