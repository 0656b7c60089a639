"""Read web data as img2dataset writes it with `--output_format files`: a `folder` with 00000/000000000.jpg and .txt."""

from compclip.prepare.sources.folder import Config as Config
from compclip.prepare.sources.folder import records as records
