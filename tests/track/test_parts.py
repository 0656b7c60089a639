"""Parameters and addresses as MLflow gets them; no store is opened."""

import pytest
from mlflow.exceptions import MlflowException

from compclip.base.errors import UserError
from compclip.track import entries, tracking_store


def test_the_cell_s_own_parameters_stand_bare():
    """The empty parameters of `pretrained` do not hide the cell's method."""
    flat_config = entries.flatten_config({"cell": {"method": "clic"}, "method": {"gamma": 2.0}})
    assert flat_config == {"method": "clic", "method.gamma": "2.0"}
    assert entries.flatten_config({"cell": {"method": "pretrained"}, "method": {}}) == {"method": "pretrained"}


def test_a_curve_s_names_say_what_was_measured():
    """Losses of training, of held-out pictures, shares of texts, speed."""
    row = {"step": 3, "time": 5.0, "loss": 1.0, "share/captions": 1.0, "data_wait": 0.1, "validation/loss": 2.0}
    points = {point.name: point.value for point in entries.curve_points([row])}
    assert points == {"train/loss": 1.0, "share/captions": 1.0, "system/data_wait": 0.1, "validation/loss": 2.0}


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        *[(uri, "keeps no file store; give sqlite:///") for uri in ("mlruns", "file:///tmp/mlruns")],
        *[(uri, "names no file") for uri in ("sqlite://", "sqlite:///", "sqlite:///:memory:")],
    ],
)
def test_what_is_no_store_is_refused(uri, message):
    with pytest.raises(UserError, match=message):
        tracking_store.store_uri(uri)


def test_the_address_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracker:5000")
    assert tracking_store.store_uri(None) == "http://tracker:5000"
    assert tracking_store.store_uri("sqlite:///x.db") == "sqlite:///x.db"


@pytest.mark.parametrize("uri", ["postgresql://me:se/cret@db/mlflow", "me:secret@db"])
def test_a_refused_address_shows_no_password(uri):
    with pytest.raises(UserError) as error:
        tracking_store.store_uri(uri)
    assert "cret" not in str(error.value)


def test_what_mlflow_says_of_an_address_is_without_its_password():
    uri = "other://me:hun%2Fter2@nowhere/db?sslpassword=hunter3"
    for message in (uri, "hun/ter2", "hun%2Fter2", "hunter3", f"API request to {uri}/api failed"):
        assert "ter" not in tracking_store._explain_error(uri, MlflowException(message)).replace("other", "")
