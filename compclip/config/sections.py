"""The sections of params.yaml as frozen dataclasses: types, ranges, choices and defaults; `validation` checks them."""

from __future__ import annotations

import builtins
import itertools
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from compclip.base.ablation_parts import part
from compclip.base.path_lists import join_paths
from compclip.config.validation import Axis, Distinct, RequiredText, Seed, Share

Paths = Annotated[RequiredText, BeforeValidator(join_paths)]  # one path, or several (`base.path_lists`)
BelowOne = Annotated[float, Field(ge=0, lt=1)]
BetweenZeroAndOne = Annotated[float, Field(gt=0, lt=1)]
# what becomes of equal scores: nobody's, or the first candidate's
WRONG = "wrong"
FIRST = "first"
# corrections for the number of comparisons
HOLM = "holm"
BENJAMINI_HOCHBERG = "benjamini_hochberg"
WHOLE, VALIDATION, TEST = SPLITS = ("whole", "validation", "test")  # items of a benchmark that are read


@dataclass(frozen=True)
class Grid:
    """The comparison: every method on every backbone and data set, once for each seed."""

    methods: Axis[str] = field(default_factory=list)
    backbones: Axis[str] = field(default_factory=list)
    data: Axis[str] = field(default_factory=list)
    seeds: Axis[Seed] = field(default_factory=list)


@dataclass(frozen=True)
class Lora:
    """A low-rank adapter on the trained towers; everything else of the backbone is frozen."""

    rank: PositiveInt = 4
    alpha: PositiveFloat = 1.0  # the update is scaled by alpha / rank
    targets: Axis[Literal["attention", "mlp", "patch"]] = field(  # patch: the image's patch convolution
        default_factory=lambda: ["attention", "mlp", "patch"]
    )
    # the patch's update: of rank `rank`; matrix: of rank `rank` times its side, as FSC-CLIP and SVLC adapt it
    patch: Literal["factors", "matrix"] = "factors"


@dataclass(frozen=True)
class Train:
    """How a method is trained; `methods.<name>.train` overlays it."""

    epochs: PositiveFloat = 5.0
    max_steps: NonNegativeInt = 0  # 0: epochs decide
    batch_size: Annotated[int, Field(ge=2)] = 256  # a contrast needs two
    lr: PositiveFloat = 1e-5
    lr_start: NonNegativeFloat = 0.0  # where the warm-up begins
    lr_end: NonNegativeFloat = 0.0
    warmup_steps: NonNegativeInt = 50
    warmup_fraction: BelowOne = 0.0  # of all steps; replaces warmup_steps where > 0
    beta1: BelowOne = 0.9
    beta2: BelowOne = 0.98
    eps: PositiveFloat = 1e-6
    weight_decay: NonNegativeFloat = 0.1
    # adam: the decay is added to the gradients (L2); adamw: the weights shrink by themselves
    optimiser: Literal["adamw", "adam"] = "adamw"
    # all_but_norms: neither norms nor biases, as transformers' Trainer, so that class token and scale are decayed
    decayed: Literal["matrices", "all", "all_but_norms"] = "matrices"
    # after the warm-up; open_clip: a cosine that stops a step before its end; transformers: so, and the first rate is
    # `lr_start`; late: open_clip's, each rate a step later and the first `lr` (TripletCLIP)
    schedule: Literal["cosine", "open_clip", "transformers", "late", "constant"] = "cosine"
    grad_clip_norm: NonNegativeFloat = 1.0  # 0: off
    trainable: Literal["all", "text", "image", "none"] = part("all", off="all", name="freezing")  # towers
    text_layers: NonNegativeInt = 0  # of the text tower's layers the first so many are trained; 0: all; never with lora
    lora: Lora | None = None  # null: the towers' own weights are trained
    train_logit_scale: bool = True  # never with lora
    max_logit_scale: PositiveFloat | None = 100.0  # null: not clamped, neither from below
    # bf16: autocast; fp16: autocast to float16, the loss scaled (torch's GradScaler); bf16_weights: the weights of
    # products themselves, as open_clip's bf16; fp16_weights: in float16, as OpenAI's program loads a model on a GPU
    precision: Literal["float32", "bf16", "fp16", "bf16_weights", "fp16_weights"] = "float32"
    # of float32 products and convolutions: highest is float32 throughout, high lets a GPU round them to TF32
    matmul: Literal["highest", "high"] = "highest"
    deterministic: bool = False  # kernels that give the same bits each time; slower on a GPU
    checkpoint_activations: bool = False  # the backward pass computes each layer's activations again; less memory
    compile: bool = False  # the towers' blocks are compiled by torch; never with lora
    threads: PositiveInt = 1
    log_every_steps: PositiveInt = 10
    checkpoint_every_min: NonNegativeFloat = 10.0  # 0: not by time
    checkpoint_every_steps: NonNegativeInt = 0  # 0: not by steps
    # shares of the steps after which the weights are kept as well, and scored as the last ones are
    snapshots: list[BetweenZeroAndOne] = field(default_factory=list)
    choose: str = ""  # a column, read on validation items: the row shows the best of snapshots and end; "": the end
    validate: bool = True  # measure held-out pictures along the training, where some are known
    micro_batch: NonNegativeInt = 0  # images encoded at a time, the contrast staying the batch's (GradCache); 0: all
    # texts of a step are encoded in so many blocks at most, of similar lengths, each as long as its longest text
    text_groups: PositiveInt = 1
    # processes that make batches ahead; null: on a GPU as many as the job has cores, on a CPU none
    workers: NonNegativeInt | None = None
    # windows: shards in random order, mixed some at a time, for disks that are slow to seek
    shuffle: Literal["full", "windows"] = "full"
    # random_resized_crop: a random part of each picture; none: the evaluation transform
    augment: Literal["none", "random_resized_crop"] = "none"
    augment_scale: list[float] = field(default_factory=lambda: [0.9, 1.0])  # of its area, at ratios of 3/4 to 4/3
    # what scales pictures: pil, as the papers' programs; torch, faster, one grey level beside it in some pixels
    resize: Literal["pil", "torch"] = "pil"
    context_length: NonNegativeInt = 0  # positions of a text, of which the backbone has more; 0: all
    # the finished weights are 1 - alpha of the backbone's and alpha of the trained ones
    average_alpha: Share = part(1.0, off=1.0, name="averaging")

    def __post_init__(self) -> None:
        scale = self.augment_scale
        if len(scale) != 2 or not 0 < scale[0] <= scale[1] <= 1:
            raise ValueError(f"augment_scale={scale}: must be two numbers with 0 < low <= high <= 1")
        if any(a >= b for a, b in itertools.pairwise(self.snapshots)):
            raise ValueError(f"snapshots={self.snapshots}: must rise, as [0.2, 0.4, 0.6, 0.8]")
        if self.choose and not self.snapshots:
            raise ValueError(f"choose={self.choose}: has nothing to choose from; add snapshots: [0.2, 0.4, 0.6, 0.8]")
        if self.text_layers and (self.lora or self.trainable not in ("all", "text")):
            raise ValueError(f"text_layers={self.text_layers}: the text tower is not trained by itself; leave it out")
        if self.compile and self.lora:
            raise ValueError("compile=True with lora: a block with adapters is not compiled; leave one of them out")


@dataclass(frozen=True)
class Backbone:
    """An open_clip model by name or config file, and its weights: hub tag, local path, or random ones."""

    model: RequiredText = ""
    weights: str = ""
    tokenizer: str = ""  # a folder, or `clip` for a stand-in; default: the model's own
    activation: Literal["", "gelu", "quickgelu"] = ""  # of a weights file that does not tell


@dataclass(frozen=True)
class Data:
    """A section of `data` in params.yaml: which source reads the set, from where, and who captions it."""

    source: RequiredText = ""
    path: Paths = ""
    images: Paths = ""
    layout: dict[str, Any] = field(default_factory=dict)  # the source's own parameters, as a table's columns
    split: str = "train"
    captioner: RequiredText = ""  # dvc.yaml reads it, so that it has no default; "none" keeps the captions
    options: dict[str, Any] = field(default_factory=dict)  # the captioner's own parameters
    captions: dict[str, Any] = field(default_factory=dict)  # a released list in place of the source's; none where empty
    rewriter: dict[str, Any] = field(default_factory=dict)  # endpoint that writes hard positives; none where empty
    rewrites: dict[str, Any] = field(default_factory=dict)  # files of released ones, in place of a rewriter
    texts: dict[str, Any] = field(default_factory=dict)  # released lists by kind, beside the captions
    masked: dict[str, Any] = field(default_factory=dict)  # a masked language model, for words in others' places
    exclude: Distinct[str] = field(default_factory=list)  # benchmarks whose pictures are left out
    openings: Literal["usual", "clic"] = "usual"  # that captions lose ("This picture shows:"); clic: of CLIC's program
    captions_each: NonNegativeInt = 0  # of a picture, the first so many; 0: all
    relatives: bool = False  # whether words for CLoVe's replace rule are looked up (`replace: clove` of a method)
    relative_weights: Literal["senses", "paths"] = "senses"  # of these words; paths: as CLoVe's program counts
    replacement_captions: NonNegativeInt = 0  # that must have a word before it replaces another; 0: any of WordNet's
    short_side: NonNegativeInt = 0  # pixels: larger pictures are scaled once, training reads the copies; 0: as they are
    limit: NonNegativeInt = 0  # 0: all
    min_sentences: NonNegativeInt = 0  # of 4 to 34 words in all captions of a picture; others are left out (CLIC B.1)
    images_outside: bool = False  # whether pictures may lie outside of `images`, by their names or through links
    negative_images: dict[str, Any] = field(default_factory=dict)  # pictures beside each as negatives; none where empty
    regions: dict[str, Any] = field(default_factory=dict)  # boxes in pictures with texts of their own; none where empty
    members: list[str] = field(default_factory=list)  # endings of further files of a sample's tar whose place is noted

    @property
    def is_rewritten(self) -> bool:
        """Whether the stage `rewrite` has texts to make of its captions, or to read."""
        return bool(self.rewriter or self.rewrites or self.masked)


@dataclass(frozen=True)
class BenchmarkSection:
    """A benchmark's module (default: its own name), its files, and what else its module may be asked for."""

    benchmark: str = ""
    path: RequiredText = ""
    images: RequiredText = ""
    split: str = ""
    images_outside: bool = False  # whether pictures may lie outside of `images`, by their names or through links
    options: dict[str, Any] = field(default_factory=dict)  # the module's own
    validation: str = ""  # the section of its authors' validation set, in place of a split by picture


@dataclass(frozen=True)
class Scoring:
    """How checkpoints are scored. Results depend on all of it but the number of threads."""

    batch_size: PositiveInt = 256
    threads: PositiveInt = 2
    ties: Literal["wrong", "first"] = "wrong"  # first: of equal scores the first's wins (authors who compare strictly)
    pictures: Literal["plain", "upright"] = "plain"  # as Pillow converts; turned as EXIF says, transparency on white
    precision: Literal["float32", "bf16"] = "float32"  # bf16: autocast, on a GPU

    @property
    def upright(self) -> bool:
        """Whether pictures are turned as their EXIF data says."""
        return self.pictures == "upright"

    def recorded(self) -> dict[str, Any]:
        """Return what results say of it."""
        return {f.name: getattr(self, f.name) for f in fields(Scoring) if f.name != "threads"}


DEFAULT_SCORING = Scoring()


@dataclass(frozen=True)
class Evaluate(Scoring):
    """What every checkpoint is scored on, and how."""

    benchmarks: Distinct[str] = field(default_factory=list)
    # what is scored without pictures: rows of their own in the report, once a data set
    blind: Distinct[Literal["length", "frequency", "bigram"]] = field(
        default_factory=lambda: ["length", "frequency", "bigram"]
    )
    # of the pictures: whose items are the validation split; chosen as results are read
    validation_share: BetweenZeroAndOne = 0.2

    @property
    def scoring(self) -> Scoring:
        """How checkpoints are scored, without the benchmarks."""
        return Scoring(**{f.name: getattr(self, f.name) for f in fields(Scoring)})


@dataclass(frozen=True)
class WiseFt:
    """Which of the grid's runs are also scored between the pretrained weights and theirs, and where."""

    methods: Distinct[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    benchmarks: Distinct[str] = field(default_factory=list)  # none: those of `evaluate`
    alphas: list[float] = field(default_factory=lambda: [i / 10 for i in range(11)])

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in itertools.pairwise(self.alphas))  # false of nan
        if not rising or [*self.alphas[:1], *self.alphas[-1:]] != [0.0, 1.0]:
            raise ValueError(f"alphas={self.alphas}: must rise from 0 to 1")


@dataclass(frozen=True)
class Report:
    """The columns of the comparison (`benchmark/metric`; none: all whole-benchmark metrics)."""

    columns: list[str] = field(default_factory=list)
    # a method of the grid that all others are compared with as well, beside the pretrained model; null is "", as an
    # empty line of YAML
    reference: Annotated[str, BeforeValidator(lambda name: "" if name is None else name)] = ""
    # over all comparisons of a table: holm holds the chance of one false mark, benjamini_hochberg the share of them
    correction: Literal["none", "holm", "benjamini_hochberg"] = "none"
    split: Literal["whole", "validation", "test"] = "whole"  # the items that are shown; papers print whole benchmarks


Finite = Annotated[float, Field(allow_inf_nan=False)]
Value = Finite | int | str | bool


@dataclass(frozen=True)
class ValueRange:
    """The values that a parameter may have in a search: a range of numbers, or choices."""

    KINDS: ClassVar[tuple[str, ...]] = ("float", "int", "categorical")

    float: tuple[Finite, Finite] | None = None
    int: tuple[builtins.int, builtins.int] | None = None
    categorical: tuple[Value, ...] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        """Check that it is one kind of range and not empty. Raises ValueError."""
        kinds = [kind for kind in self.KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            raise ValueError(f"must have one of {', '.join(self.KINDS)}; as {{float: [0, 1]}}")
        values = getattr(self, kinds[0])
        if kinds == ["categorical"]:
            if len(set(map(repr, values))) < max(2, len(values)) or self.log:
                raise ValueError("must be two or more different choices, without log")
        elif not values[0] < values[1] or (values[0] <= 0 and (self.log or kinds == ["factor"])):
            raise ValueError("must rise, and begin above 0 for log and factor")


@dataclass(frozen=True)
class SearchRange(ValueRange):
    """What is searched of one parameter: a range around the method's own value, a range, or choices."""

    KINDS: ClassVar[tuple[str, ...]] = ("factor", *ValueRange.KINDS)

    factor: tuple[Finite, Finite] | None = None  # of the method's own value, on a logarithmic scale

    def around(self, value: Any) -> dict[str, Any]:
        """Return the dimension as a study's file has it; empty for a factor of 0, which searches nothing."""
        if self.factor:
            low, high = (value * f for f in self.factor)
            return {"float": [low, high], "log": True} if value else {}
        if self.categorical is not None:
            return {"categorical": list(self.categorical)}
        kind, limits = ("float", self.float) if self.float else ("int", self.int)
        return {kind: list(limits or ()), "log": self.log}

    @staticmethod
    def holds(dimension: dict[str, Any], value: Any) -> bool:
        """Return whether a dimension, as a study's file has it, holds a value."""
        if "categorical" in dimension:
            return value in dimension["categorical"]
        low, high = dimension.get("float") or dimension["int"]
        return isinstance(value, (float, int)) and low <= value <= high


def _search_schedule() -> dict[str, SearchRange]:
    return {"train.lr": SearchRange(factor=(0.2, 5.0)), "train.average_alpha": SearchRange(float=(0.0, 1.0))}


@dataclass(frozen=True)
class Tune:
    """How every trained method of the grid is tuned before it is trained: alike, on validation items alone.

    What is shown must not choose: test items are for the report.
    """

    trials: NonNegativeInt = 0  # of each method's schedule, which is searched first; 0: nothing is tuned
    part_trials: NonNegativeInt = 4  # then of each of its own weights and exponents, with that schedule; 0: none
    widenings: ClassVar[int] = 3  # of a space whose best trial lies at an edge, each with half as many trials more
    device_hours: NonNegativeFloat = 0.0  # of each method's trials, after which none is begun; 0: no limit
    objectives: Axis[str] = field(default_factory=lambda: ["summary/Comp", "summary/General"])
    # `train.<name>` for all methods, `<method>.<name>` for one
    space: dict[str, SearchRange] = field(default_factory=_search_schedule)
    sampler: ClassVar[str] = "random"  # whose trials are the same however many run side by side
    seed: Seed = 1000  # of the trials and of the sampler; none of the grid's


@dataclass(frozen=True)
class World:
    """Sizes and seed of the world; a scene depends on (seed, split, index) alone."""

    seed: NonNegativeInt = 0
    train: PositiveInt = 6000  # pictures for fine-tuning
    retrieval: PositiveInt = 500  # test pictures with several captions
    records: PositiveInt = 300  # records of each benchmark subset
    per_class: PositiveInt = 20  # pictures of each class in zero-shot classification
    processes: PositiveInt = 2
    joined: Share = 0.0  # share of captions for fine-tuning whose first sentence joins two things or looks by "and"
    other_axis: Share = 0.0  # share of replaced relations in benchmarks of the other axis ("left of" for "above")
    beside: bool = False  # edited pictures, negations, paraphrases and single sentences of each picture for fine-tuning


@dataclass(frozen=True)
class Params:
    """params.yaml as a whole; `methods` stays raw until a cell asks for one."""

    grid: Grid
    train: Train
    methods: dict[str, dict]
    backbones: dict[str, Backbone]
    data: dict[str, Data]
    benchmarks: dict[str, BenchmarkSection]
    evaluate: Evaluate
    wise_ft: WiseFt
    report: Report
    scenes: World
    tune: Tune = field(default_factory=Tune)
    tuned: dict[str, Any] = field(default_factory=dict)  # chosen values by method and place (`config.tuning`)
