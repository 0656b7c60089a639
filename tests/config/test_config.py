"""params.yaml: every mistake is one line with key, value and fix, and nothing is written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.config import __main__ as config_command
from compclip.config import grid as config_grid
from compclip.config import read
from tests.shipped_files import SHIPPED_PARAMS


@pytest.mark.parametrize("override,message", [
    ("train.lrr=3", r"train: unknown key 'lrr'; did you mean 'lr'"),
    ("trian.lr=3", r"unknown section 'trian'; did you mean 'train'\?"),
    ("train.lr=fast", r"train.lr='fast': must be float"), ("train.lr=-1", r"train.lr=-1: must be > 0"),
    ("train.lr=nan", r"train.lr='nan': must be float"), ("train.batch_size=1", r"train.batch_size=1: must be >= 2"),
    ("train.beta2=1", r"train.beta2=1: must be < 1"),
    ("train.precision=float23", r"train.precision: unknown precision 'float23'; did you mean 'float32'"),
    ("methods.hard_positives.negatives_in_contrastive=yess", r"in_contrastive='yess': must be true or false"),
    ("wise_ft.alphas=[0.25,0.0]", r"wise_ft.alphas=.*: must rise from 0 to 1"),
    ("train.trainable=txet", r"unknown trainable 'txet'; did you mean 'text'\?"),
    ("methods.fsc_clip.gama=1", r"methods.fsc_clip: unknown key 'gama'; did you mean 'gamma'\?"),
    ("methods.fsc_clip.gamma=-1", r"methods.fsc_clip.gamma=-1.0: must be >= 0"),
    ("methods.clip_fsc={}", r"unknown method 'clip_fsc'; did you mean"),
    ("grid.methods=[negclp]", r"grid.methods: unknown method 'negclp'; did you mean 'negclip'"),
    ("grid.methods=[fsc_clip.local]", r"methods.fsc_clip.variants: unknown variant 'local'"),
    ("grid.methods=[]", r"grid.methods=\[\]: must name at least one"),
    ("grid.seeds=[0,0]", r"grid.seeds=\[0, 0\]: must name each once; 0 is named twice"),
    ("grid.seeds=[1.5]", r"grid.seeds.0=1.5: must be int"),
    ("grid.seeds={a: 1}", r"override 'grid.seeds=\{a: 1\}': "),
    ("methods.clic.train=3", r"methods.clic.train=3: must be a mapping"),
    ("methods.clic.variants.a.lambda_con=3", r"methods.clic.variants.a: unknown key 'lambda_con'; did you mean"),
    ("methods.clic.per_data.scene.lambda_uni=3", r"methods.clic.per_data: unknown data 'scene'; did you mean 'scenes'"),
    ("methods.clic.per_data.scenes.train.lr=0", r"methods.clic.per_data.scenes.train.lr=0: must be > 0"),
    ("methods.clic.lambda_uni=big", r"methods.clic.lambda_uni='big': must be float; the default is 1.0"),
    ("backbones.scenes.model=", r"backbones.scenes.model: must be given"),
    ("train.micro_batch=-5", r"train.micro_batch=-5: must be >= 0"),
    ("train.lr=???", r"override 'train.lr=\?\?\?': \?\?\? is no value; give one"),
    ("grid.seeds=[0,4294967296]", r"grid.seeds.1=4294967296: must be < 4294967296"),
    ("backbones.scenes.activation=relu", r"backbones.scenes.activation: unknown activation 'relu'; did you mean 'gelu'"),
    ("train.lr=${nope}", r"train.lr: Interpolation key 'nope' not found"),
    ("evaluate.benchmarks=[sugarcrap]", r"unknown benchmark 'sugarcrap'; did you mean 'sugarcrepe'"),
    ("data.scenes.source=karpaty", r"unknown source 'karpaty'; did you mean 'karpathy'\?"),
    ("benchmarks.sugarcrepe.images=''", r"benchmarks.sugarcrepe.images: must be given"),
    ("data.scenes.captioner=blip", r"'blip'; known: coca, endpoint, hf, none, scenes"),
    ("data.scenes.path=''", r"data.scenes.path: must be given"),
    ("scenes.records=0", r"yaml: scenes.records=0: must be > 0"), ("train", r"override 'train': must be key=value"),
    ("benchmarks.retrieval.options.cleen=clic", r"benchmarks.retrieval.options: unknown key 'cleen'; did you mean"),
    ("benchmarks.sugarcrepe.options.clean=clic", r"benchmarks.sugarcrepe.options: benchmark 'sugarcrepe' has no"),
])  # fmt: skip
def test_mistakes(override, message):
    """Each mistake names the file, the key, the value and what would be right, in one line."""
    with pytest.raises(UserError, match=message) as error:
        read.load_params(SHIPPED_PARAMS, [override])
    assert str(error.value).startswith(f"{SHIPPED_PARAMS}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("override,message", [
    ("evaluate.benchmarks=[]", r"evaluate.benchmarks=\[\]: must name at least one"),
    ("wise_ft.seeds=[7]", r"wise_ft.seeds: 7 is not in grid.seeds; add it there or remove it here"),
    ("wise_ft.methods=[hard_positives.x]", r"unknown variant 'x'"),
    ("grid.methods=[negclip]", r"wise_ft.methods: fsc_clip is not in grid.methods"),
    ("report.columns=[sugarcrap/add]", r"'sugarcrap/add', .*unknown benchmark 'sugarcrap'; did you mean 'sugarcrepe'"),
    ("report.columns=[sugarcrepe]", r"report.columns: unknown column 'sugarcrepe'; did you mean 'sugarcrepe/"),
    ("report.columns=[sugarcrepe/swp]", r"report.columns: unknown column 'sugarcrepe/swp'; did you mean 'sugarcrepe/swap'"),
    ("report.columns=[sugarcrepe/swp/unseen_pairs]", r"unknown column 'sugarcrepe/swp/unseen_pairs'; did you mean"),
    ("report.columns=[retrieval/mean_recall_at_7]", r"unknown column 'retrieval/mean_recall_at_7'; did you mean"),
    ("report.columns=[zeroshot/top_2]", r"unknown column 'zeroshot/top_2'; did you mean"),
    ("evaluate.benchmarks=[retrieval]", r"report.columns: 'sugarcrepe/add', in evaluate.benchmarks: unknown benchmark"),
])  # fmt: skip
def test_sections_that_do_not_fit_together(tmp_path, override, message):
    """Said by `check` and by the first stage, in one line; commands that look at one section go on."""
    for command in (["check"], ["plan", "--out", str(tmp_path / "out")]):
        with pytest.raises(UserError, match=message) as error:
            config_command.main([*command, "--params", str(SHIPPED_PARAMS), override])
        assert str(error.value).startswith(f"{SHIPPED_PARAMS}: ") and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_cells_have_names_of_their_own():
    """Two places of the grid never share a folder, and no name leaves runs/."""
    sets = [
        "data.c={source: coco, path: p, images: i, captioner: none}",
        "data.b-c={source: coco, path: p, images: i, captioner: none}", "backbones.a.model=x",
        "backbones.a-b.model=x", "grid.methods=[clic]", "grid.seeds=[0]",
    ]  # fmt: skip
    params = read.load_params(SHIPPED_PARAMS, [*sets, "grid.backbones=[a,a-b]", "grid.data=[c]"])
    assert len(config_grid.list_cells(params)) == 2
    with pytest.raises(UserError, match="have the name 'clic-a-b-c-0'"):
        read.load_params(SHIPPED_PARAMS, [*sets, "grid.backbones=[a,a-b]", "grid.data=[c,b-c]"])
    with pytest.raises(UserError, match="backbone 'org/vit': must be letters"):
        read.load_params(
            SHIPPED_PARAMS, [*sets, "backbones.org/vit.model=x", "grid.backbones=[org/vit]", "grid.data=[c]"]
        )


@pytest.mark.parametrize("text,message", [
    ("grid: [", "not YAML"), ("a: b: c\n", "not YAML: .*line 1"), ("grid: {}\ngrid: {}\n", "duplicate key grid"),
    ("- a\n- b\n", "must be a mapping"), ("3\n", "must be a mapping"),
    ("grid: {seeds: {a: 1}}\n", r"grid.seeds=\{'a': 1\}: must be a list"),
    ("", r"grid.methods=\[\]: must name at least one"), ("train:\n  lr: ???\n", r"train.lr=\?\?\?: must be given"),
    ("train: {lr: '???'}\n", r"train.lr=\?\?\?: must be given"),
])  # fmt: skip
def test_broken_files(tmp_path, text, message):
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(UserError, match=f"p.yaml: .*{message}"):
        read.load_params(tmp_path / "p.yaml")


def test_invalid_utf8_and_missing_file(tmp_path):
    (tmp_path / "p.yaml").write_bytes(b"grid: \xff\xfe")
    with pytest.raises(UserError, match="p.yaml: not UTF-8"):
        read.load_params(tmp_path / "p.yaml")
    with pytest.raises(UserError, match="Is a directory"):
        read.load_params(tmp_path)
    with pytest.raises(UserError, match="none.yaml: no such file; run from a project's root"):
        read.load_params(tmp_path / "none.yaml")


def test_variants_overlay_their_method():
    """A variant changes what it names, in parameters and in training, and keeps the rest."""
    overrides = [
        "methods.fsc_clip.variants.local.lambda_global=0",
        "methods.fsc_clip.variants.local.train.lr=1e-3",
        "grid.methods=[fsc_clip,fsc_clip.local]",
    ]
    params = read.load_params(SHIPPED_PARAMS, overrides)
    plain, local = (config_grid.resolve(params, f"{m}-scenes-scenes-0") for m in params.grid.methods)
    assert (plain.method.lambda_global, local.method.lambda_global) == (0.5, 0.0)
    assert local.method.lambda_local == plain.method.lambda_local
    assert (plain.train.lr, local.train.lr) == (params.train.lr, 1e-3)


def test_a_data_set_can_have_its_own_values():
    """Method, then what it says of this data set, then the variant: the last one that names a value has it."""
    overrides = [
        "data.other={source: coco, path: p, images: i, captioner: none}",
        "grid.data=[scenes,other]",
        "methods.clic.per_data.other={lambda_cont: 1.0, train: {epochs: 5}}",
        "methods.clic.variants.few={lambda_s_neg: 0, train: {epochs: 2}}",
        "grid.methods=[clic,clic.few]",
    ]
    params = read.load_params(SHIPPED_PARAMS, overrides)
    expected = {
        "clic-scenes-scenes-0": (0.5, 0.5, params.train.epochs),
        "clic-scenes-other-0": (1.0, 0.5, 5.0),
        "clic.few-scenes-other-0": (1.0, 0.0, 2.0),
    }
    for name, values in expected.items():
        run = config_grid.resolve(params, name)
        assert (run.method.lambda_cont, run.method.lambda_s_neg, run.train.epochs) == values
        assert run.train.lr == params.methods["clic"]["train"]["lr"]


@settings(max_examples=10)
@given(lr=st.floats(1e-8, 1.0), epochs=st.floats(0.1, 30.0), gamma=st.floats(0, 10), seed=st.integers(0, 2**31))
def test_config_yaml_reproduces_the_run(tmp_path_factory, lr, epochs, gamma, seed):
    """Written and read again, a run is equal in every number."""
    overrides = [
        f"train.lr={lr!r}", f"train.epochs={epochs!r}", f"methods.fsc_clip.gamma={gamma!r}", f"grid.seeds=[{seed}]",
    ]  # fmt: skip
    run = config_grid.resolve(read.load_params(SHIPPED_PARAMS, overrides), f"fsc_clip-scenes-scenes-{seed}")
    path = tmp_path_factory.mktemp("c") / "config.yaml"
    path.write_text(config_grid.run_to_yaml(run))
    assert config_grid.read_run(path) == run


def test_a_constant_is_in_the_key_and_may_be_set_to_its_own_value_alone():
    """As an option that a grid or a stored run of an earlier version has."""
    cell = "negclip-scenes-scenes-0"
    run = config_grid.resolve(read.load_params(SHIPPED_PARAMS), cell)
    assert run.plain["method"]["nearest"] == 3
    assert config_grid.resolve(read.load_params(SHIPPED_PARAMS, ["methods.negclip.nearest=3"]), cell) == run
    assert config_grid.parse_run(run.plain, "stored") == run
    with pytest.raises(UserError, match=r"methods.negclip.nearest=4: is a constant, 3; remove it"):
        read.load_params(SHIPPED_PARAMS, ["methods.negclip.nearest=4"])


@pytest.mark.parametrize("text,message", [
    ("", "config.yaml: cell.method: must be given"), ("cell: 3\n", "config.yaml: cell=3: must be a mapping"),
    ("cell: {method: clipp, backbone: a, data: b, seed: 0}\n", "unknown method 'clipp'"),
    ("cell: {method: clic, backbone: a, data: b, seed: 0}\ntrain: {lr: 0}\n", "config.yaml: train.lr=0: must be > 0"),
])  # fmt: skip
def test_config_yaml_of_others(tmp_path, text, message):
    """A config.yaml that is no run's, or has an impossible value, is a named mistake."""
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        config_grid.read_run(tmp_path / "config.yaml")


def test_show_prints_a_run_that_loads(tmp_path, capsys):
    assert config_command.main(["show", "clic-scenes-scenes-1", "--params", str(SHIPPED_PARAMS)]) == 0
    (tmp_path / "config.yaml").write_text(capsys.readouterr().out)
    run = config_grid.resolve(read.load_params(SHIPPED_PARAMS), "clic-scenes-scenes-1")
    assert config_grid.read_run(tmp_path / "config.yaml") == run
