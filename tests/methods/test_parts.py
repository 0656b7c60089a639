"""What each method says it can do without: every declared value is one it takes, and it trains something else then."""

from dataclasses import asdict, replace

import pytest
import torch

from compclip.base import ablation_parts, plugins
from compclip.config.sections import Train
from compclip.config.validation import load_section
from compclip.interface.method import load_method
from compclip.runs.run_store import compute_key
from tests.methods.conftest import drawn

METHODS = {name: load_method(name) for name in plugins.list_plugins(plugins.METHODS)}
DECLARED = [(name, field) for name, method in METHODS.items() for field in ablation_parts.list_parts(method.Config)]
WEIGHTS = [(name, field) for name, field in DECLARED if field.startswith("lambda_")]
STEPS = (0, 1)
NEW_AGENT = load_method("il_clip").Config().first_agent_step
SWITCHED = {  # of a method whose parts are off by default, and no numbers
    "hybrid": {"steps": "composites+single", "place": "contrast+s_neg+global+local", "negatives": "negclip+bigram",
               "concepts": "pooled", "hard_positives": "both"},
}  # fmt: skip


def full_config(name):
    """A method with all of its parts, those too that its defaults leave out."""
    cfg = METHODS[name].Config(**SWITCHED.get(name, {}))
    out = {f: p.off for f, p in ablation_parts.list_parts(cfg).items() if getattr(cfg, f) == p.off}
    return replace(cfg, **{field: type(off)(1) for field, off in out.items()})


def without(name, field):
    """The same without one part, read as from params.yaml."""
    declared = ablation_parts.list_parts(METHODS[name].Config)[field]
    overlay = {field: declared.off, **declared.along}
    return load_section(METHODS[name].Config, asdict(full_config(name)) | overlay, f"methods.{name}")


def without_what_it_is_of(name, field):
    """The same without all that a part is of: a switch loses the member that the part is named to be of."""
    declared, changes = ablation_parts.list_parts(METHODS[name].Config), {}
    for other in declared[field].of:
        switch, _, member = other.partition(":")
        members = [one for one in str(getattr(full_config(name), switch)).split("+") if one != member]
        if member:
            changes[switch] = "+".join(members)
        else:
            changes |= {other: declared[other].off, **declared[other].along} if other in declared else {other: 0.0}
    return replace(full_config(name), **changes)


def terms(name, cfg, step, like=None, fill="all"):
    torch.manual_seed(0)  # heads of a method's own begin by chance
    batch = drawn(name, like or cfg, step, fill=fill)
    return {term: value.detach() for term, value in METHODS[name].loss(batch, cfg, step).items()}


def run_key(name, cfg):
    run = {"cell": {"method": name, "seed": 0}, "train": asdict(Train()), "method": asdict(cfg)}
    return compute_key(run, True, "inputs", "code")


@pytest.mark.parametrize(("name", "field"), DECLARED)
def test_a_part_names_fields_that_are_there(name, field):
    """In what it is of, with a member that the field takes, and in what goes along with it."""
    declared, cfg = ablation_parts.list_parts(METHODS[name].Config)[field], full_config(name)
    assert {one.partition(":")[0] for one in declared.of} | {*declared.along} <= {*asdict(cfg)}
    assert all(not ablation_parts.is_left_out(cfg, one) for one in declared.of)


@pytest.mark.parametrize("name", METHODS)
def test_every_weight_of_a_term_beside_the_contrast_is_a_part(name):
    """Of a term that weighs nothing where its weight is 0; CLIC's own contrast and the analogy have another switch."""
    weights = [field for field in asdict(METHODS[name].Config()) if field.startswith("lambda_")]
    assert {*weights} - {*ablation_parts.list_parts(METHODS[name].Config)} <= {"lambda_cont", "lambda_analogy"}


@pytest.mark.parametrize(("name", "field"), DECLARED)
def test_without_a_part_another_run_is_trained(name, field):
    full, less = full_config(name), without(name, field)
    assert not ablation_parts.is_left_out(full, field) and ablation_parts.is_left_out(less, field)
    assert run_key(name, full) != run_key(name, less)
    method = METHODS[name]
    asks = any(method.views(full, step) != method.views(less, step) for step in STEPS)
    weighs = any(terms(name, full, step) != terms(name, less, step) for step in STEPS)
    trains = any(method.phase(full, step) != method.phase(less, step) for step in (*STEPS, NEW_AGENT))
    assert asks or weighs or trains or _learns(name, field)


def _learns(name, field):
    """Whether it changes what a method keeps between steps."""
    method = METHODS[name]
    full, less = full_config(name), without(name, field)
    batch = drawn(name, full)
    memories = [method.memory(cfg) | method.remember(batch, cfg) for cfg in (full, less)]
    return any(not torch.equal(memories[0][key], memories[1][key]) for key in memories[0])


@pytest.mark.parametrize(("name", "field"), WEIGHTS)
def test_without_a_weight_one_term_goes_and_the_others_stay(name, field):
    full, less = full_config(name), without(name, field)
    every = set()  # over the steps, which have different terms: every second one of CLIC's is plain
    for step in STEPS:
        before, after = terms(name, full, step), terms(name, less, step, like=full)
        gone = [term for term in before if not after.get(term, torch.tensor(0.0))]
        every.update(gone)
        before, after = ({t: value for t, value in one.items() if t not in gone} for one in (before, after))
        assert before == after
    assert len(every) == 1


@pytest.mark.parametrize(("name", "field"), DECLARED)
def test_what_is_a_part_of_others_does_nothing_without_them(name, field):
    """So that an ablation need not train it: the same terms with and without it."""
    method, declared = METHODS[name], ablation_parts.list_parts(METHODS[name].Config)[field]
    if not declared.of:
        return
    full = without_what_it_is_of(name, field)
    assert ablation_parts.is_left_out(full, field)
    if field == "lambda_uni":  # p2 is p1 then, which the drawn texts are not
        assert method.views(full, 0).composite.partner == ""
        return
    less = replace(full, **{field: declared.off, **declared.along})
    fill = "all" if method.views(full, 0).negatives else "none"
    totals = [sum(terms(name, cfg, 0, full, fill).values()) for cfg in (full, less)]
    assert totals[0] == totals[1]
