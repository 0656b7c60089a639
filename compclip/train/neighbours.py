"""The stage `neighbours`: of each picture the nearest ones by a backbone: `compclip stage neighbours`.

    data/neighbours/<data>/<backbone>.npy     numbers of samples, nearest first: uint32 [N, K]
    data/neighbours/made.json                 of what each was made, and how many pictures could not be read

It makes what the methods of the grid ask for, and is done at once where none does. `--data NAME --backbone NAME` makes
those of a method outside of the grid, as of a sweep. What is there and still of the same data, backbone and code stays.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from compclip.base import safe_names
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import atomic, read_mapping, update_json
from compclip.base.lazy_torch import torch
from compclip.base.safe_names import SafeName
from compclip.config import plan
from compclip.config.cell import PRETRAINED, Cell
from compclip.data import column_hashes, images
from compclip.data.prepared_dataset import PreparedDataset
from compclip.data.sample import ImageLocation
from compclip.interface.views import STORED_NEIGHBOURS
from compclip.runs import run_store
from compclip.runs.run_folder import NEIGHBOURS_RECORD, Inputs, read_neighbours_record

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

    from compclip.model.clip_model import ClipModel

STAGE = "neighbours"
SPOOL = Path(".work/neighbours")


def write_missing(pairs: list[tuple[SafeName, SafeName]], code: str, root: Path = Path()) -> list[str]:
    """Make what is missing for pairs of data and backbone; gives what was made. Raises UserError for missing inputs."""
    records = read_neighbours_record(root)
    new_pairs = []
    for data_name, backbone_name in pairs:
        inputs = Inputs(root, Cell(SafeName(PRETRAINED, "method"), backbone_name, data_name, 0))
        pictures = run_store.hash_pictures(inputs)
        record = records.get(inputs.pair, {})
        is_current = record.get("code") == code and record.get("inputs") == pictures.all
        if not inputs.neighbours.is_file() or not is_current:
            records[inputs.pair] = {"inputs": pictures.all, "code": code} | _write_neighbours(inputs)
            update_json(root / NEIGHBOURS_RECORD, records)
            new_pairs.append(inputs.pair)
    update_json(root / NEIGHBOURS_RECORD, records)
    return new_pairs


def _write_neighbours(inputs: Inputs) -> dict[str, Any]:
    """Write the neighbours of one pair; return the counts of samples and of unreadable pictures."""
    from compclip.model import backbone  # takes seconds to load, and most grids ask for no neighbours
    from compclip.train import distributed

    column_hashes.check_files(inputs.data)
    prepared = PreparedDataset(inputs.data)
    model = backbone.load(inputs.backbone, device=distributed.process_device())
    near_NK, unreadable = compute_neighbours(model, prepared, inputs.root / SPOOL)
    with atomic(inputs.neighbours) as tmp, open(tmp, "wb") as file:
        np.save(file, near_NK)
    return {"samples": len(prepared), "unreadable": unreadable}


def main(argv: list[str]) -> int:
    """Run the stage `neighbours`, or make one pair of data and backbone."""
    parser = CommandParser(prog="compclip stage neighbours", description=__doc__.splitlines()[0], example="")
    parser.add_argument("--data", help="with --backbone: of this data set, whatever the grid asks for")
    parser.add_argument("--backbone", help="with --data: by the pictures' vectors of this backbone")
    args = parser.parse_args(argv)
    if bool(args.data) != bool(args.backbone):
        parser.error("--data and --backbone: belong together; give both or neither")
    if args.data:
        pair = safe_names.parse_name(args.data, "--data"), safe_names.parse_name(args.backbone, "--backbone")
        new_pairs = write_missing([pair], plan.hash_stage_code(STAGE))
    else:
        path = plan.FOLDER / STAGE / f"{STAGE}.json"
        if not path.is_file():
            raise UserError(f"{path}: not there; run `compclip repro plan` first")
        with plan.reading(path):
            content = read_mapping(path)
            pairs = [(SafeName(data, "data"), SafeName(backbone, "backbone")) for data, backbone in content["pairs"]]
            code = content["code"]
        new_pairs = write_missing(pairs, code)
    print(f"{', '.join(new_pairs) or 'nothing'} made")
    return 0


# --- the nearest pictures -------------------------------------------------------------------------------------------
# The nearest pictures of each picture of a data set by a backbone's embeddings: cosine, itself left out.
#
# N pictures, K neighbours, D joint dim, G vectors held at a time, R and C rows and columns of a block.
#
# Cost: every picture through the image tower once, then 2 N² D flops in blocks: at a million pictures and D = 512
# some 1e15. The embeddings lie in a file (4 N D bytes: 2 GB). As many as `HELD_BYTES` allow are held on the device,
# and the file is read once for each such group: a million of 512 numbers are one group and are read once (2 GB, in
# place of 1 TB for each block of rows anew), twelve million are twelve groups (295 GB). Beside the group there are
# 120 bytes for each of its vectors and a block of scores (64 MiB). How large a group is changes no bit of the result.
# A block does not serve its transpose as well: that saves half of the products, not the search in them, and sums them
# in another order.


BATCH = 64  # pictures that are encoded at once
AHEAD = 4 * BATCH  # pictures that are read before they are needed
# of a block of scores: 64 MiB
ROWS = 2048
COLUMNS = 8192
HELD_BYTES = 2 << 30  # of vectors on the device at a time: 1,048,576 of 512 numbers


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
    from compclip.model import towers

    there_N = torch.zeros(len(data), dtype=torch.bool)
    samples_done = 0
    width = 1
    model.clip.eval()
    device = next(model.clip.parameters()).device
    for pictures in _read_pictures(model, data):
        readable = [index for index, picture in enumerate(pictures) if picture]
        if readable:
            pixels = model.pixels(list(filter(None, pictures))).to(device)
            with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
                vectors_BD = towers.encode_images(model.clip, pixels)[0].float().cpu()
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


def _read_pictures(model: ClipModel, data: PreparedDataset) -> Iterator[list[Image | None]]:
    """Yield batches of pictures as the model takes them, some read ahead; None for one that cannot be read."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
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
    group_size = max(1, HELD_BYTES // (4 * vectors.width * ROWS)) * ROWS
    for start in range(0, len(vectors), group_size):
        stop = min(start + group_size, len(vectors))
        near_NK[start:stop] = _find_nearest_of_group(vectors, start, stop, count, device).cpu().numpy()
    return near_NK


def _find_nearest_of_group(
    vectors: VectorFile, start: int, stop: int, count: int, device: torch.device | str
) -> Tensor:
    group_GD = _read_group(vectors, start, stop, device)
    best_GK = torch.full((stop - start, count), -torch.inf, device=device)
    number_GK = torch.zeros(stop - start, count, dtype=torch.long, device=device)
    there_N = vectors.there_N.to(device)
    for low in range(0, len(vectors), COLUMNS):
        high = min(low + COLUMNS, len(vectors))
        is_held = start <= low and high <= stop
        columns_CD = group_GD[low - start : high - start] if is_held else vectors.block(low, high).to(device)
        for first in range(start, stop, ROWS):
            rows = slice(first - start, min(first + ROWS, stop) - start)
            score_RC = (group_GD[rows] @ columns_CD.T).masked_fill_(~there_N[low:high], -torch.inf)
            last = max(first, low, min(rows.stop + start, high))
            itself = torch.arange(max(first, low), last, device=device)
            score_RC[itself - first, itself - low] = -torch.inf
            best_GK[rows], number_GK[rows] = _merge(best_GK[rows], number_GK[rows], score_RC, low)
    return number_GK


def _read_group(vectors: VectorFile, start: int, stop: int, device: torch.device | str) -> Tensor:
    """Read vectors to the device, in blocks, so that the host holds no second copy of them."""
    group_GD = torch.empty(stop - start, vectors.width, device=device)
    for low in range(start, stop, COLUMNS):
        high = min(low + COLUMNS, stop)
        group_GD[low - start : high - start] = vectors.block(low, high)
    return group_GD


def _merge(best_RK: Tensor, number_RK: Tensor, score_RC: Tensor, low: int) -> tuple[Tensor, Tensor]:
    """Return the best scores and their numbers after a block of scores whose first column is vector `low`."""
    top_RK, column_RK = score_RC.topk(min(best_RK.shape[1], score_RC.shape[1]), dim=1)
    all_scores = torch.cat([best_RK, top_RK], 1)
    all_numbers = torch.cat([number_RK, column_RK + low], 1)
    best_RK, index_RK = all_scores.topk(best_RK.shape[1], dim=1)
    return best_RK, all_numbers.gather(1, index_RK)


if __name__ == "__main__":
    sys.exit(entry(main))
