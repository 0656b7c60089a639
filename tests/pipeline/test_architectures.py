"""A real architecture on real photographs, through the commands: a slice of perf/speed/architectures.py, which runs all pairs."""

import json
import math

import pytest

from compclip.config import read
from perf.speed import architectures


@pytest.mark.long
def test_c2lip_on_vit_s_32(shared_data, tmp_path):
    """Of the methods, the one with all losses: two steps, finite, and the records whose photographs are there scored."""
    model, method = "ViT-S-32", "c2lip"
    architectures.make(tmp_path, shared_data, [method], [model], steps=2, batch_size=2)
    architectures.command(tmp_path, "compclip.model", "--backbone", model)
    row = architectures.measure(tmp_path, method, model)
    assert math.isfinite(row.first_loss) and math.isfinite(row.last_loss) and row.first_loss != row.last_loss
    assert row.scored == 12 and 0 <= row.metric <= 1 and row.peak_gib > 0.5
    assert method in architectures.table([row])


def test_its_data_have_what_every_method_asks(tmp_path):
    """Reading the parameters refuses a method whose data lack a list."""
    tables = json.dumps({method: architectures.OPTIONS.get(method, {}) for method in architectures.METHODS})
    values = {"methods": ", ".join(architectures.METHODS), "models": "vit", "at": tmp_path, "tables": tables}
    values["backbones"] = "  vit: {model: ViT-B-32, weights: random}"
    (tmp_path / "params.yaml").write_text(architectures.PARAMS.format(**values, steps=2, batch_size=2))
    assert list(read.load_params(tmp_path / "params.yaml").grid.methods) == architectures.METHODS
