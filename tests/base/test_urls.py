"""Addresses without their secrets: in every form that a password takes, and in what libraries say of them."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.base.urls import check_url, mask_message, mask_url, warn_of_password

# x9 is in no other part of an address
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).map("x9".__add__)


@pytest.mark.parametrize(("url", "expected"), [
    ("postgresql://me:pw@db/mlflow", "postgresql://me:***@db/mlflow"),
    ("postgresql://me:p/w@db:5432/mlflow", "postgresql://me:***@db:5432/mlflow"),
    ("postgresql://me:p@w@db/mlflow", "postgresql://me:***@db/mlflow"),
    ("postgresql://db/mlflow?user=me&password=pw&x=1", "postgresql://db/mlflow?user=me&password=***&x=1"),
    ("postgresql://db/mlflow?p%61ssword=pw", "postgresql://db/mlflow?p%61ssword=***"),
    ("postgresql://db/mlflow?password=p@w", "postgresql://***"),
    ("http://token@tracker:5000", "http://***@tracker:5000"), ("me:pw@db", "***"),
    ("postgresql://me@db/mlflow", "postgresql://me@db/mlflow"),
    ("http://tracker:5000/#/experiments", "http://tracker:5000/#/experiments"),
    ("sqlite:////home/me@work/mlflow.db", "sqlite:////home/me@work/mlflow.db"),
    ("sqlite:///mlflow/mlflow.db", "sqlite:///mlflow/mlflow.db"), ("mlruns", "mlruns"),
])  # fmt: skip
def test_what_is_shown(url, expected):
    assert mask_url(url) == expected


@given(user=st.text(max_size=5), password=TEXT, scheme=st.sampled_from(["postgresql+psycopg", "http", "mysql"]))
def test_a_password_is_never_shown(user, password, scheme):
    for spelling in (password, quote(password, safe="")):
        assert "x9" not in mask_url(f"{scheme}://{user}:{spelling}@host:5432/db?timeout=5")
    assert "x9" not in mask_url(f"postgresql://me@host/db?password={quote(password, safe='')}&connect_timeout=5")


@given(TEXT)
def test_what_libraries_say_is_without_it(password):
    """In the form of the address, as it is, and as Python would write it."""
    quoted = quote(password, safe="")
    for uri in (
        f"postgresql://me:{quoted}@host/db",
        f"postgresql://host/db?password={quoted}",
        f"http://{quoted}@host/",
    ):
        for mention in (uri, password, repr(password), quoted):
            assert "x9" not in mask_message(f"cannot connect with {mention}: refused", uri)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:pa/ss@db/mlflow", "postgresql://me:p@ss@db/mlflow", "postgresql://me:pass@db:port/mlflow",
        "postgresql://me:12/pass@db/mlflow", "postgresql://db/mlflow?password=p@ss", "http://me:pass@[db/mlflow",
        "http://me:pass\n@db/mlflow", "http://me:pa ss@db/mlflow", "http://me:pa#ss@db/mlflow", "http://me:pa?ss@db",
    ],
)  # fmt: skip
def test_an_address_whose_parts_cannot_be_told_is_refused(uri):
    """Libraries differ in where the password ends, and would say a part of it."""
    with pytest.raises(UserError, match="uri='.*write / as %2F") as error:
        check_url(uri, "uri")
    assert "ss@" not in str(error.value) and "pa" not in str(error.value).split(";")[0].replace("pass@", "")


@pytest.mark.parametrize(
    "uri",
    ["sqlite:////home/me@work/my files/x.db", "postgresql://me:p%2Fss@db:5432/mlflow?sslmode=require", "http://t:5000"],
)
def test_other_addresses_stay(uri):
    assert check_url(uri, "uri") == uri


def test_a_secret_on_a_command_line_is_warned_of(capsys):
    warn_of_password("postgresql://me:pw@db/x", "--uri", "MLFLOW_TRACKING_URI")
    warn_of_password("postgresql://me@db/x", "--uri", "MLFLOW_TRACKING_URI")
    warn_of_password(None, "--uri", "MLFLOW_TRACKING_URI")
    [line] = capsys.readouterr().err.splitlines()
    assert line == "warning: --uri holds a password, which `ps` shows to others; give it as MLFLOW_TRACKING_URI"
