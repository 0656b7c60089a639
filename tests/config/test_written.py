"""A run's config.yaml as text."""

from __future__ import annotations

import omegaconf
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from compclip.config import how
from compclip.config.written import plain_yaml

ODD = ("1e-3", "y", "No", "TRUE", "yEs", "0x1f", "1_000", "inf", "nan", " 1", "~", "1:30", "2020-01-01", "a: b", "- x")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ODD),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=5), below, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(values=st.dictionaries(st.text(min_size=1, max_size=6), VALUES, max_size=4))
def test_as_omegaconf_writes_it(values):
    """Byte for byte, whatever stands in it."""
    try:
        expected = OmegaConf.to_yaml(OmegaConf.create(values))
    except OmegaConfBaseException:  # an interpolation that is none
        assume(False)
    assert plain_yaml(values) == expected


def test_the_mark_of_what_must_be_given_is_omegaconfs():
    """It is spelled once more here, so that a stage without work need not import OmegaConf."""
    assert how.MISSING == omegaconf.MISSING
