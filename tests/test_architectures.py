"""A real architecture on real photographs, through the commands: a slice of perf/architectures.py, which runs all pairs."""

from __future__ import annotations

import math

import pytest

from perf import architectures


def test_c2lip_on_vit_s_32(shared_data, tmp_path):
    """Of the methods, the one with all losses: two steps, finite, and the records whose photographs are there scored."""
    model, method = "ViT-S-32", "c2lip"
    architectures.make(tmp_path, shared_data, [method], [model], steps=2, batch_size=2)
    architectures.command(tmp_path, "compclip.model", "--backbone", model)
    row = architectures.measure(tmp_path, method, model)
    assert math.isfinite(row.first_loss) and math.isfinite(row.last_loss) and row.first_loss != row.last_loss
    assert row.scored == 12 and 0 <= row.metric <= 1 and row.peak_gib > 0.5
    assert method in architectures.table([row])


def test_without_photographs_it_says_why(tmp_path, capsys):
    """The script skips with a reason."""
    assert architectures.main(["--data", str(tmp_path)]) == 0
    assert "skipped" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        architectures.main(["--models", "ViT-B-23"])
