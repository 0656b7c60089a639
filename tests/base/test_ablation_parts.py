"""Fields that declare how they are left out."""

from dataclasses import dataclass

import pytest

from compclip.base import ablation_parts
from compclip.base.ablation_parts import part


@dataclass(frozen=True)
class Made:
    near: float = part(1.0, off=0.0)
    far: float = part(0.5, off=0.0)
    focus: float = part(2.0, off=0.0, of=("near", "far"))
    rewrites: str = part("both", off="none", of=("weight",), name="positives", focus=0.0)
    weight: float = 1.0
    plain: str = "x"
    deep: int = part(3, off=0, of=("plain:x",))


def test_what_is_declared_stands_at_the_field():
    declared_parts = ablation_parts.list_parts(Made)
    assert list(declared_parts) == ["near", "far", "focus", "rewrites", "deep"]
    assert declared_parts["focus"] == ablation_parts.Part(0.0, ("near", "far"), "", {})
    assert declared_parts["rewrites"] == ablation_parts.Part("none", ("weight",), "positives", {"focus": 0.0})
    assert (Made().near, Made().rewrites) == (1.0, "both")


@pytest.mark.parametrize(("values", "out"), [
    ({}, []), ({"near": 0}, ["near"]), ({"near": 0, "far": 0}, ["near", "far", "focus"]), ({"focus": 0.0}, ["focus"]),
    ({"weight": 0.0}, ["rewrites"]), ({"rewrites": "none"}, ["rewrites"]), ({"plain": "y+x"}, []),
    ({"plain": "y+xx"}, ["deep"]),
])  # fmt: skip
def test_a_part_is_out_by_itself_or_with_all_that_it_is_a_part_of(values, out):
    assert [name for name in ablation_parts.list_parts(Made) if ablation_parts.is_left_out(Made(**values), name)] == out
