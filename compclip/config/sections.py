"""Declare the sections of params.yaml as frozen dataclasses: types, ranges and defaults, checked by `validation`."""

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
# how equal scores count: as wrong, or for the first candidate
WRONG = "wrong"
FIRST = "first"
# corrections for the number of comparisons
HOLM = "holm"
BENJAMINI_HOCHBERG = "benjamini_hochberg"
WHOLE, VALIDATION, TEST = SPLITS = ("whole", "validation", "test")  # which items of a benchmark are used


@dataclass(frozen=True)
class Grid:
    """The grid: every method is trained on every backbone and data set, once for each seed."""

    methods: Axis[str] = field(default_factory=list)
    backbones: Axis[str] = field(default_factory=list)
    data: Axis[str] = field(default_factory=list)
    seeds: Axis[Seed] = field(default_factory=list)


@dataclass(frozen=True)
class Lora:
    """Low-rank adapters in the trained towers; the weights of the backbone are frozen."""

    rank: PositiveInt = 4
    alpha: PositiveFloat = 1.0  # the update is scaled by alpha / rank
    targets: Axis[Literal["attention", "mlp", "patch"]] = field(  # patch: the image's patch convolution
        default_factory=lambda: ["attention", "mlp", "patch"]
    )
    # the update of the patch convolution: of rank `rank`; matrix: of `rank` times its side, as in FSC-CLIP and SVLC
    patch: Literal["factors", "matrix"] = "factors"


@dataclass(frozen=True)
class Train:
    """How methods are trained; `methods.<name>.train` overrides it for one method."""

    epochs: PositiveFloat = 5.0
    max_steps: NonNegativeInt = 0  # stop after so many steps; 0: after `epochs`
    batch_size: Annotated[int, Field(ge=2)] = 256  # a contrast needs at least two samples
    lr: PositiveFloat = 1e-5
    lr_start: NonNegativeFloat = 0.0  # the learning rate at the beginning of the warm-up
    lr_end: NonNegativeFloat = 0.0
    warmup_steps: NonNegativeInt = 50
    warmup_fraction: BelowOne = 0.0  # share of all steps; replaces warmup_steps if > 0
    beta1: BelowOne = 0.9
    beta2: BelowOne = 0.98
    eps: PositiveFloat = 1e-6
    weight_decay: NonNegativeFloat = 0.1
    # adam: weight decay is added to the gradients (L2); adamw: it is decoupled from them
    optimiser: Literal["adamw", "adam"] = "adamw"
    # which parameters have weight decay; all_but_norms: neither norms nor biases, as transformers' Trainer; the class
    # token and the logit scale do
    decayed: Literal["matrices", "all", "all_but_norms"] = "matrices"
    # the learning rate after the warm-up. open_clip: a cosine that stops one step before its end; transformers: the
    # same, the first step at `lr_start`; late: open_clip's, each rate one step later and the first `lr` (TripletCLIP)
    schedule: Literal["cosine", "open_clip", "transformers", "late", "constant"] = "cosine"
    grad_clip_norm: NonNegativeFloat = 1.0  # 0: off
    trainable: Literal["all", "text", "image", "none"] = part("all", off="all", name="freezing")  # towers
    text_layers: NonNegativeInt = 0  # train only the first so many layers of the text tower; 0: all; never with lora
    lora: Lora | None = None  # null: train the towers' own weights
    train_logit_scale: bool = True  # never with lora
    max_logit_scale: PositiveFloat | None = 100.0  # null: not clamped, also not from below
    # bf16: autocast; fp16: autocast to float16 with a scaled loss (torch's GradScaler); bf16_weights: also weights of
    # matrix products, as open_clip's bf16; fp16_weights: weights in float16, as OpenAI's program loads a model on a GPU
    precision: Literal["float32", "bf16", "fp16", "bf16_weights", "fp16_weights"] = "float32"
    # float32 products and convolutions. highest: computed in float32; high: a GPU may round them to TF32
    matmul: Literal["highest", "high"] = "highest"
    deterministic: bool = False  # use only kernels that give the same bits each time; slower on a GPU
    checkpoint_activations: bool = False  # compute activations again in the backward pass, to save memory
    compile: bool = False  # compile the towers' blocks by torch; never with lora
    threads: PositiveInt = 1
    log_every_steps: PositiveInt = 10
    checkpoint_every_min: NonNegativeFloat = 10.0  # 0: not by time
    checkpoint_every_steps: NonNegativeInt = 0  # 0: not by steps
    # shares of the steps after which the weights are also kept, and scored like the last ones
    snapshots: list[BetweenZeroAndOne] = field(default_factory=list)
    choose: str = ""  # show the snapshot, or the end, that is best in this column on validation items; "": the end
    validate: bool = True  # measure held-out pictures during the training, if there are any
    micro_batch: NonNegativeInt = 0  # images encoded at a time; the whole batch is contrasted (GradCache); 0: all
    # encode the texts of a step in at most so many groups of similar length, each padded to its longest text
    text_groups: PositiveInt = 1
    # processes that prepare batches in advance; null: as many as the job has cores on a GPU, none on a CPU
    workers: NonNegativeInt | None = None
    # windows: take shards in random order and mix the samples of some at a time, for disks that are slow to seek
    shuffle: Literal["full", "windows"] = "full"
    # random_resized_crop: a random crop of each picture; none: the evaluation transform
    augment: Literal["none", "random_resized_crop"] = "none"
    augment_scale: list[float] = field(default_factory=lambda: [0.9, 1.0])  # share of the area; ratio 3/4 to 4/3
    # scale pictures by pil, as the papers' programs, or by torch: faster, and one grey level different in some pixels
    resize: Literal["pil", "torch"] = "pil"
    context_length: NonNegativeInt = 0  # text positions, fewer than the backbone has; 0: all of its own
    # the finished weights are (1 - alpha) times the backbone's plus alpha times the trained ones
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
            raise ValueError(f"text_layers={self.text_layers}: needs trainable all or text, and no lora; leave it out")
        if self.compile and self.lora:
            raise ValueError("compile=True with lora: blocks with adapters cannot be compiled; leave one of them out")


@dataclass(frozen=True)
class Backbone:
    """An open_clip model, given by name or config file, and its weights: a tag, a local path, or random ones."""

    model: RequiredText = ""
    weights: str = ""
    tokenizer: str = ""  # a folder, or `clip` to replace one that is not installed; default: the model's own
    activation: Literal["", "gelu", "quickgelu"] = ""  # for a file of weights that does not name its activation


@dataclass(frozen=True)
class Data:
    """A section of `data`: which source reads the data set, from where, and which captioner writes its captions."""

    source: RequiredText = ""
    path: Paths = ""
    images: Paths = ""
    layout: dict[str, Any] = field(default_factory=dict)  # the source's own parameters, such as a table's columns
    split: str = "train"
    captioner: RequiredText = ""  # "none" keeps the captions; without a default, since dvc.yaml reads it
    options: dict[str, Any] = field(default_factory=dict)  # the captioner's own parameters
    captions: dict[str, Any] = field(default_factory=dict)  # a released list that replaces the captions; empty: none
    rewriter: dict[str, Any] = field(default_factory=dict)  # an endpoint that writes hard positives; empty: none
    rewrites: dict[str, Any] = field(default_factory=dict)  # files of released hard positives, instead of a rewriter
    texts: dict[str, Any] = field(default_factory=dict)  # released lists of further texts, by kind
    masked: dict[str, Any] = field(default_factory=dict)  # a masked language model that proposes replacement words
    exclude: Distinct[str] = field(default_factory=list)  # benchmarks whose pictures are left out
    openings: Literal["usual", "clic"] = "usual"  # phrases cut from captions ("This picture shows:"); clic: CLIC's list
    captions_each: NonNegativeInt = 0  # use only the first so many captions of each picture; 0: all
    relatives: bool = False  # look up words for CLoVe's replace rule (`replace: clove` of a method)
    relative_weights: Literal["senses", "paths"] = "senses"  # weights of these words; paths: as CLoVe's program counts
    replacement_captions: NonNegativeInt = 0  # captions that must contain a word that replaces another; 0: any word
    short_side: NonNegativeInt = 0  # pixels; larger pictures are scaled once and training reads the copies; 0: never
    limit: NonNegativeInt = 0  # use only the first so many samples; 0: all
    min_sentences: NonNegativeInt = 0  # leave out pictures with fewer sentences of 4 to 34 words (CLIC B.1)
    images_outside: bool = False  # whether paths or links may lead to pictures outside of `images`
    negative_images: dict[str, Any] = field(default_factory=dict)  # negative pictures for each picture; empty: none
    regions: dict[str, Any] = field(default_factory=dict)  # boxes in pictures with their own texts; empty: none
    members: list[str] = field(default_factory=list)  # extensions of more files in a tar whose positions are recorded

    @property
    def is_rewritten(self) -> bool:
        """Whether the stage `rewrite` has to make or read texts for the captions."""
        return bool(self.rewriter or self.rewrites or self.masked)


@dataclass(frozen=True)
class BenchmarkSection:
    """A section of `benchmarks`: the module (default: the section's name), its files and its options."""

    benchmark: str = ""
    path: RequiredText = ""
    images: RequiredText = ""
    split: str = ""
    images_outside: bool = False  # whether paths or links may lead to pictures outside of `images`
    options: dict[str, Any] = field(default_factory=dict)  # the module's own parameters
    validation: str = ""  # the section with its authors' validation set, used instead of a split by picture


@dataclass(frozen=True)
class Scoring:
    """How checkpoints are scored. Results depend on everything here except the number of threads."""

    batch_size: PositiveInt = 256
    threads: PositiveInt = 2
    ties: Literal["wrong", "first"] = "wrong"  # first: the first of equal scores wins, as in some authors' programs
    pictures: Literal["plain", "upright"] = "plain"  # upright: turned as EXIF says, transparency on white
    precision: Literal["float32", "bf16"] = "float32"  # bf16: autocast, on a GPU

    @property
    def upright(self) -> bool:
        """Whether pictures are turned as their EXIF data says."""
        return self.pictures == "upright"

    def recorded(self) -> dict[str, Any]:
        """Return the settings as results record them."""
        return {f.name: getattr(self, f.name) for f in fields(Scoring) if f.name != "threads"}


DEFAULT_SCORING = Scoring()


@dataclass(frozen=True)
class Evaluate(Scoring):
    """The benchmarks that every checkpoint is scored on, and how."""

    benchmarks: Distinct[str] = field(default_factory=list)
    # baselines that do not see pictures; each is a row of the report, once per data set
    blind: Distinct[Literal["length", "frequency", "bigram"]] = field(
        default_factory=lambda: ["length", "frequency", "bigram"]
    )
    # share of the pictures whose items form the validation split; the split is made when results are read
    validation_share: BetweenZeroAndOne = 0.2

    @property
    def scoring(self) -> Scoring:
        """How checkpoints are scored, without the benchmarks."""
        return Scoring(**{f.name: getattr(self, f.name) for f in fields(Scoring)})


@dataclass(frozen=True)
class WiseFt:
    """Runs of the grid that are also scored with weights between the pretrained ones and theirs."""

    methods: Distinct[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    benchmarks: Distinct[str] = field(default_factory=list)  # empty: those of `evaluate`
    alphas: list[float] = field(default_factory=lambda: [i / 10 for i in range(11)])  # 0: pretrained; 1: trained

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in itertools.pairwise(self.alphas))  # false of nan
        if not rising or [*self.alphas[:1], *self.alphas[-1:]] != [0.0, 1.0]:
            raise ValueError(f"alphas={self.alphas}: must rise from 0 to 1")


@dataclass(frozen=True)
class Report:
    """The report: its columns (`benchmark/metric`; empty: all metrics of whole benchmarks) and comparisons."""

    columns: list[str] = field(default_factory=list)
    # a method of the grid that all others are compared with, besides the pretrained model; null, as YAML reads an empty
    # value, means none
    reference: Annotated[str, BeforeValidator(lambda name: "" if name is None else name)] = ""
    # over all comparisons of a table; holm limits the chance of any false mark, benjamini_hochberg their share
    correction: Literal["none", "holm", "benjamini_hochberg"] = "none"
    split: Literal["whole", "validation", "test"] = "whole"  # the items that are scored; papers use whole benchmarks


Finite = Annotated[float, Field(allow_inf_nan=False)]
Value = Finite | int | str | bool


@dataclass(frozen=True)
class ValueRange:
    """The values that a search may try for a parameter: a range of numbers, or choices."""

    KINDS: ClassVar[tuple[str, ...]] = ("float", "int", "categorical")

    float: tuple[Finite, Finite] | None = None
    int: tuple[builtins.int, builtins.int] | None = None
    categorical: tuple[Value, ...] | None = None
    log: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one kind of range is given and it is not empty."""
        kinds = [kind for kind in self.KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            raise ValueError(f"must have one of {', '.join(self.KINDS)}, such as {{float: [0, 1]}}")
        values = getattr(self, kinds[0])
        if kinds == ["categorical"]:
            if len(set(map(repr, values))) < max(2, len(values)) or self.log:
                raise ValueError("must be two or more different choices, without log")
        elif not values[0] < values[1] or (values[0] <= 0 and (self.log or kinds == ["factor"])):
            raise ValueError("must rise, and begin above 0 for log and factor")


@dataclass(frozen=True)
class SearchRange(ValueRange):
    """The values that `tune` may try for a parameter: a range around the method's own value, a range, or choices."""

    KINDS: ClassVar[tuple[str, ...]] = ("factor", *ValueRange.KINDS)

    factor: tuple[Finite, Finite] | None = None  # range as multiples of the method's own value, on a logarithmic scale

    def around(self, value: Any) -> dict[str, Any]:
        """Return the range around `value` in the format of a study's file; empty for multiples of 0."""
        if self.factor:
            low, high = (value * f for f in self.factor)
            return {"float": [low, high], "log": True} if value else {}
        if self.categorical is not None:
            return {"categorical": list(self.categorical)}
        kind, limits = ("float", self.float) if self.float else ("int", self.int)
        return {kind: list(limits or ()), "log": self.log}

    @staticmethod
    def holds(dimension: dict[str, Any], value: Any) -> bool:
        """Return whether a range in the format of a study's file contains a value."""
        if "categorical" in dimension:
            return value in dimension["categorical"]
        low, high = dimension.get("float") or dimension["int"]
        return isinstance(value, (float, int)) and low <= value <= high


def _search_schedule() -> dict[str, SearchRange]:
    return {"train.lr": SearchRange(factor=(0.2, 5.0)), "train.average_alpha": SearchRange(float=(0.0, 1.0))}


@dataclass(frozen=True)
class Tune:
    """How the grid's methods are tuned before they are trained: all in the same way, on validation items only.

    Items that the report shows must not be used to choose values: test items are reserved for the report.
    """

    trials: NonNegativeInt = 0  # trials for each method's schedule, which is tuned first; 0: nothing is tuned
    part_trials: NonNegativeInt = 4  # then, with that schedule, for each of its own weights and exponents; 0: none
    widenings: ClassVar[int] = 3  # times that a range is widened if its best trial is at an edge, with half the trials
    device_hours: NonNegativeFloat = 0.0  # start no further trial of a method after so many hours; 0: no limit
    objectives: Axis[str] = field(default_factory=lambda: ["summary/Comp", "summary/General"])
    # `train.<name>` for all methods, `<method>.<name>` for one
    space: dict[str, SearchRange] = field(default_factory=_search_schedule)
    sampler: ClassVar[str] = "random"  # its trials are the same however many run side by side
    seed: Seed = 1000  # seed of the trials and of the sampler; must not be one of grid.seeds


@dataclass(frozen=True)
class World:
    """Sizes and seed of the embedded scenes; each scene depends only on (seed, split, index)."""

    seed: NonNegativeInt = 0
    train: PositiveInt = 6000  # pictures for fine-tuning
    retrieval: PositiveInt = 500  # test pictures with several captions
    records: PositiveInt = 300  # records of each benchmark subset
    per_class: PositiveInt = 20  # pictures of each class in zero-shot classification
    processes: PositiveInt = 2
    joined: Share = 0.0  # share of training captions whose first sentence joins two things or attributes by "and"
    other_axis: Share = 0.0  # share of replaced relations in benchmarks that change the axis ("left of" for "above")
    beside: bool = False  # also make edited pictures, negations, paraphrases and single sentences for training


@dataclass(frozen=True)
class Params:
    """The whole params.yaml; the sections of `methods` are parsed only when a cell is resolved."""

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
