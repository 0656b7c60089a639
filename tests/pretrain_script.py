"""The script that made the world's pretrained models, as a module.

No compiled copy of it is written: it would lie beside the weights, in a folder on which a stage of DVC depends.
"""

import importlib.util
import sys
from types import ModuleType

from tests.conftest import ROOT

PATH = ROOT / "experiments" / "backbones" / "pretrain.py"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pretrain_script", PATH)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their types
    wrote_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = wrote_bytecode
    return module


pretrain = load_script()
