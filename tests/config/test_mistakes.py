"""Mistakes in params.yaml as people make them: `config check` names key and value and says what to do, in one line."""

import pytest

from compclip.base.errors import entry
from compclip.config import __main__ as command
from tests.conftest import ROOT

# What stands in params.yaml, what is written instead, and what the line must have: the key, the value, the fix.
MISTAKES = {
    "misspelt section": ("evaluate:\n", "evalute:\n", ("evalute", "did you mean 'evaluate'")),
    "misspelt key": ("  warmup_steps: 30", "  warmup_step: 30", ("train", "warmup_step", "did you mean 'warmup_steps'")),
    "misspelt method": ("[pretrained, finetune,", "[pretraind, finetune,", ("grid.methods", "pretraind", "did you mean 'pretrained'")),
    "misspelt backbone": ("backbones: [scenes]", "backbones: [scene]", ("grid.backbones", "'scene'", "did you mean 'scenes'")),
    "misspelt data": ("  data: [scenes]", "  data: [secnes]", ("grid.data", "'secnes'", "did you mean 'scenes'")),
    "misspelt benchmark": ("benchmarks: [sugarcrepe,", "benchmarks: [sugarcrep,", ("evaluate.benchmarks", "'sugarcrep'", "did you mean 'sugarcrepe'")),
    "misspelt source": ("source: karpathy", "source: karpaty", ("data.scenes.source", "'karpaty'", "did you mean 'karpathy'")),
    "misspelt captioner": ("captioner: scenes", "captioner: scene", ("data.scenes.captioner", "'scene'", "did you mean 'scenes'")),
    "misspelt kind of benchmark": ("benchmark: zeroshot,", "benchmark: zeroshoot,", ("benchmarks.zeroshot_symbols", "'zeroshoot'", "did you mean 'zeroshot'")),
    "misspelt parameter of a method": ("    gamma: 2.0", "    gama: 2.0", ("methods.fsc_clip", "'gama'", "did you mean 'gamma'")),
    "a choice that is none": ("attention: minmax", "attention: minmx", ("methods.fsc_clip", "attention=minmx", "did you mean 'minmax'")),
    "out of range": ("batch_size: 64", "batch_size: 0", ("train.batch_size=0", "must be >= 2")),
    "beyond a bound": ("    epsilon: 0.02", "    epsilon: 1.5", ("methods.fsc_clip", "epsilon=1.5", "must be")),
    "a word for a number": ("  lr: 1.5e-4", "  lr: fast", ("train.lr='fast'", "must be float")),
    "a fraction for a count": ("warmup_steps: 30", "warmup_steps: 2.5", ("train.warmup_steps=2.5", "must be int")),
    "a word for a truth value": ("negatives_in_contrastive: true", "negatives_in_contrastive: yess", ("methods.hard_positives", "negatives_in_contrastive='yess'", "must be true or false")),
    "a word for a list": ("  seeds: [0, 1]", "  seeds: 0", ("grid.seeds=0", "must be a list")),
    "the same seed twice": ("  seeds: [0, 1]", "  seeds: [1, 1]", ("grid.seeds", "1", "twice")),
    "a list for a mapping": ("  pretrained: {}", "  pretrained: []", ("methods.pretrained=[]", "must be a mapping")),
    "nothing given": ("    path: data/scenes_world/train.json\n", "", ("data.scenes.path", "must be given")),
    "precision that is none": ("precision: float32", "precision: float23", ("train.precision", "'float23'", "did you mean 'float32'")),
    "weights in the wrong order": ("alphas: [0.0, 0.25,", "alphas: [0.25, 0.0,", ("wise_ft.alphas", "0.25", "must rise from 0 to 1")),
    "no methods, which DVC goes through": ("  methods: [negclip, fsc_clip]\n", "", ("wise_ft.methods", "must be given", "{methods: []}")),
    "a column that nobody has": ("    - sugarcrepe/add\n", "    - sugarcrepe/ad\n", ("report.columns", "sugarcrepe/ad", "did you mean")),
    "YAML": ("grid:\n", "grid: [\n", ("params.yaml",)),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(tmp_path, capsys, mistake):
    """Exit code 2, one line on standard error, and nothing written."""
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    right, wrong, expected = MISTAKES[mistake]
    assert text.count(right) >= 1
    path = tmp_path / "params.yaml"
    path.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    code = entry(lambda _: command.main(["check", "--params", str(path)]))
    error = capsys.readouterr().err
    assert code == 2 and error.count("\n") == 1 and "Traceback" not in error
    for words in expected:
        assert words in error
    assert [file.name for file in tmp_path.iterdir()] == ["params.yaml"]
