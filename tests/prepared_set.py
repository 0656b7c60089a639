"""A data set as training reads it, of annotations that a test made by hand."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from compclip.data import shard_files
from compclip.data.prepared_dataset import NOUNS_FILE, PreparedDataset
from compclip.data.sample import Sample
from compclip.data.shard_files import Manifest
from compclip.prepare import annotate_shards, shard_writer
from compclip.text.annotation import Annotation
from compclip.text.annotation_columns import AnnotationColumns


def prepared(
    folder: Path, samples: Sequence[Sample], annotations: Sequence[Sequence[Annotation]], size: int = 2
) -> PreparedDataset:
    """The samples, whose captions are `annotations`, in shards of `size`."""
    listed = []
    for number, low in enumerate(range(0, len(samples), size)):
        rows = slice(low, low + size)
        listed.append(_shard(folder, shard_writer.shard_name(number), samples[rows], annotations[rows]))
    paths = [folder / shard_files.SHARDS / f"{shard.name}.arrow" for shard in listed]
    shard_writer.write_noun_index(folder / NOUNS_FILE, paths)
    shard_writer.write_manifest(folder / shard_files.MANIFEST, Manifest(tuple(listed)))
    return PreparedDataset(folder)


def _shard(folder: Path, name: str, samples: Sequence[Sample], annotations: Sequence[Sequence[Annotation]]):
    columns, flat = AnnotationColumns(), [a for sample_annotations in annotations for a in sample_annotations]
    for annotation in flat:
        columns.add(_fill_token_fields(annotation))
    path = folder / shard_files.SHARDS / f"{name}.arrow"
    caption_counts = [len(sample_annotations) for sample_annotations in annotations]
    kinds = sorted({kind for annotation in flat for kind in annotation.stored})
    texts = {kind: [annotation.stored.get(kind, ()) for annotation in flat] for kind in kinds}
    shard_writer.write_batch(path, annotate_shards.build_batch(samples, caption_counts, columns, texts))
    return shard_writer.describe_shard(path, name, len(samples), len(flat))


def _fill_token_fields(annotation: Annotation) -> Annotation:
    """With something in every field that tells of a token."""
    count = len(annotation)
    lacking = {name: ("X",) * count for name in ("tag", "lemma", "dep") if not getattr(annotation, name)}
    heads = annotation.heads or tuple(range(count))
    return replace(annotation, heads=heads, candidates=annotation.candidates or ((),) * count, **lacking)


def all_annotations(data: PreparedDataset) -> list[tuple[Annotation, ...]]:
    """What a data set holds, sample by sample."""
    return [tuple(data.annotation(i, j) for j in range(data.captions(i))) for i in range(len(data))]
