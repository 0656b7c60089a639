"""A project of fake runs, brought into an MLflow store, and what stands there then."""

import os
from unittest import mock

from compclip.track import sync, tracking_store, writer
from compclip.track.writer import StoreWriter

HOME = "compclip: vit on scenes"


def params(tmp_path, methods=("pretrained", "clic"), seeds=(0, 1), columns=()):
    """A params.yaml whose grid is that of the fake runs."""
    text = f"""
grid: {{methods: [{", ".join(methods)}], backbones: [vit], data: [scenes], seeds: [{", ".join(map(str, seeds))}]}}
train: {{}}
methods: {{pretrained: {{}}, clic: {{}}, negclip: {{}}}}
backbones: {{vit: {{model: ViT-B-32}}}}
data: {{scenes: {{source: karpathy, path: a, images: b, captioner: none}}}}
benchmarks: {{}}
report: {{columns: [{", ".join(columns)}]}}
"""
    path = tmp_path / "params.yaml"
    path.write_text(text)
    return path


def source(tmp_path, project="", **how):
    grid = {k: how.pop(k) for k in ("methods", "seeds", "columns") if k in how}
    with mock.patch.dict(os.environ, {sync.PROJECT: project} if project else {}):
        return sync.load_project(
            params(tmp_path, **grid), tracking_store.DEFAULT_URI, tmp_path, tmp_path / "studies", **how
        )


def leave_header(client, checkpoint, model, link):
    """Stand in for `fill_model`: of a model's files the one that says that they are there."""
    header = tracking_store.path_of_uri(model.artifact_location) / writer.MLMODEL
    header.parent.mkdir(parents=True)
    header.touch()


def update(tmp_path, uri, **how):
    return sync.update_store(source(tmp_path, **how), uri)


def tracked(uri):
    """The client and every run of ours by name; fails where a name stands twice."""
    with tracking_store.open_client(uri) as client:
        runs = [run for of_key in StoreWriter(client, "compclip", None).tracked_runs.values() for run in of_key]
        assert len({run.info.run_name for run in runs}) == len(runs)
        return client, {run.info.run_name: run for run in runs}


def steps(client, run):
    return [m.step for m in client.get_metric_history(run.info.run_id, "train/clip")]
