"""Plan the studies of the section `tune`, the same for each method of the grid, and read the values that they chose.

A method is tuned in two searches: first its schedule, then its own parameters with the chosen schedule. Both are
studies like those in experiments/studies, with objectives on validation items. A request describes them: their common
declaration, their spaces, and the settings that they start from. It is written to plan/tune/tune.json. The stage `tune`
writes the request and the chosen values to tuned/<method>.json. Values of an outdated request are not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from compclip.base.ablation_parts import list_parts
from compclip.base.errors import UserError, unknown
from compclip.base.files import read_mapping
from compclip.base.safe_names import SafeName
from compclip.config.cell import Cell
from compclip.config.grid import list_cells, list_values, method_config
from compclip.config.sections import VALIDATION, Params, SearchRange
from compclip.config.validation import list_fields
from compclip.interface.method import load_method

TUNED = Path("tuned")
LIST = "studies.json"  # in the same folder: what was tuned last
TRAIN = "train."
STARTUP_TRIALS = 5  # drawn at random before a sampler learns
PART_RANGE = SearchRange(factor=(0.25, 4.0))  # for a method's own weights and exponents
Values = Mapping[str, Any]  # chosen values of a method: its own parameters by name, and `train.<name>`


def check_tune(params: Params) -> None:
    """Raise UserError if the section `tune` does not fit the grid."""
    tune = params.tune
    evaluated = params.evaluate.benchmarks
    if not tune.trials:
        return
    for objective in tune.objectives:
        benchmark, _, metric = objective.partition("/")
        if not metric or benchmark not in ("summary", *evaluated):
            raise unknown("benchmark", benchmark, ["summary", *evaluated], f"tune.objectives: {objective!r}")
    if tune.seed in params.grid.seeds:
        raise UserError(f"tune.seed={tune.seed}: is one of grid.seeds, so tuning would favour its luck; give another")
    parameters = [f"{TRAIN}{name}" for name in list_fields(params.train)]
    for method in list_methods(params):
        base = method.partition(".")[0]
        parameters += [f"{base}.{name}" for name in list_fields(load_method(base).Config)]
    for key in tune.space:
        if key not in parameters:
            raise unknown("parameter", key, dict.fromkeys(parameters), "tune.space")


def list_methods(params: Params) -> list[str]:
    """List the methods of the grid that are tuned: those that are trained. Each variant is tuned separately."""
    return [method for method in params.grid.methods if load_method(method).TRAINS]


def place_name(cell: Cell) -> str:
    """Return backbone-data, the name of a place: a method is tuned once in each place, for all seeds."""
    return f"{cell.backbone}-{cell.data}"


def list_requests(params: Params) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the requests by method and place (backbone-data); empty if nothing is tuned."""
    requests: dict[str, dict[str, dict[str, Any]]] = {}
    if params.tune.trials:
        methods = list_methods(params)
        for cell in list_cells(params):
            places = requests.setdefault(str(cell.method), {}) if cell.method in methods else {}
            if cell.method in methods and place_name(cell) not in places:
                places[place_name(cell)] = _make_request(params, cell)
    return requests


def _make_request(params: Params, cell: Cell) -> dict[str, Any]:
    """Build the request of one method and place: the study's declaration, searches and starting settings."""
    tune = params.tune
    config, train = method_config(params, cell.method, cell.data)
    settings = {"method": list_values(config), "train": asdict(train)}
    for name in ("snapshots", "choose"):  # a trial is scored only at its end
        del settings["train"][name]
    study = {
        "method": str(cell.method),
        "backbone": str(cell.backbone),
        "data": str(cell.data),
        "seed": tune.seed,
        "objectives": list(tune.objectives),
        "split": VALIDATION,
        "sampler": tune.sampler,
        "startup_trials": STARTUP_TRIALS,
    }
    searches = _make_searches(params, cell, settings)
    limits = {"widenings": tune.widenings, "device_hours": tune.device_hours}
    shares = {"benchmarks": list(params.evaluate.benchmarks), "validation_share": params.evaluate.validation_share}
    return {"study": study, "searches": searches, "settings": settings, **limits, **shares}


def _make_searches(params: Params, cell: Cell, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Build the searches of a method: its schedule, with equally many trials for all methods, then its own parameters.

    The second search has a number of trials per parameter. Each search has its space, its number of trials, and the
    current values as `paper` if the space contains them all.
    """
    schedule: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, search_range in _list_ranges(params, cell, settings["method"]).items():
        dimension = search_range.around(get_value(settings, name))
        if dimension:
            space = schedule if name.startswith(TRAIN) else own
            space[name] = dimension
    searches = []
    for space, trials in ((schedule, params.tune.trials), (own, params.tune.part_trials * len(own))):
        values = get_values(settings, space)
        is_inside = all(SearchRange.holds(space[name], values[name]) for name in space)
        if space and trials:
            searches.append({"space": space, "trials": trials, "paper": [values] if is_inside else []})
    if not searches:
        raise UserError(f"tune.space: nothing to search for {cell.method}; name a parameter as train.lr")
    return searches


def _list_ranges(params: Params, cell: Cell, config: Mapping[str, Any]) -> dict[str, SearchRange]:
    base = cell.method.partition(".")[0]
    trained: dict[str, SearchRange] = {}
    declared: dict[str, SearchRange] = {}
    for key, search_range in params.tune.space.items():
        section, _, name = key.partition(".")
        if section == "train":
            trained[key] = search_range
        elif section == base:
            declared[name] = search_range
    parts: dict[str, SearchRange] = {}
    for name in list_parts(load_method(base).Config):
        if isinstance(config[name], float) and config[name] > 0:
            parts[name] = PART_RANGE
    return trained | parts | declared


def get_value(settings: Mapping[str, Any], name: str) -> Any:
    """Return the value of a tuned parameter in a run's settings, by its name in the space."""
    return settings["train"][name.removeprefix(TRAIN)] if name.startswith(TRAIN) else settings["method"][name]


def get_values(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the values of tuned parameters in a run's settings, by their names in the space."""
    return {name: get_value(settings, name) for name in names}


# --- chosen values


def read_values(params: Params, root: Path) -> dict[str, dict[str, Values]]:
    """Read the chosen values by method and place, without those of outdated requests."""
    documents = read_current(params, root)
    values: dict[str, dict[str, Values]] = {}
    for method, places in documents.items():
        values[method] = {place: document["values"] for place, document in places.items()}
    return values


def read_current(params: Params, root: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Read what the stage `tune` wrote for the current requests, by method and place."""
    current: dict[str, dict[str, dict[str, Any]]] = {}
    for method, places in list_requests(params).items():
        document = read_document(method, root)
        current[method] = {}
        for place, request in places.items():
            if place in document and document[place]["request"] == request:
                current[method][place] = document[place]
    return current


def read_document(method: str, root: Path) -> dict[str, Any]:
    """Read what the stage `tune` wrote for a method, by place; empty if it has not run."""
    path = root / TUNED / f"{SafeName(method, 'method')}.json"
    return read_mapping(path) if path.is_file() else {}


def apply_values(run: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """Return a run's plain values with the chosen values replaced in them."""
    method = dict(run["method"])
    train = dict(run["train"])
    for name, value in values.items():
        section = train if name.startswith(TRAIN) else method
        section[name.removeprefix(TRAIN)] = value
    return {**run, "method": method, "train": train}
