"""The peer of `manage.py bench cluster`: drain3, a miner of log templates, with masks for common kinds of values."""

import importlib
import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.errors import BenchError

PACKAGES = ("drain3==0.9.11", "cachetools==4.2.1", "jsonpickle==1.5.1")
_EDGE, _END = r"((?<=[^A-Za-z0-9])|^)", r"((?=[^A-Za-z0-9])|$)"
MASKS = (
    (rf"{_EDGE}([0-9a-fA-F]{{8}}-(?:[0-9a-fA-F]{{4}}-){{3}}[0-9a-fA-F]{{12}}){_END}", "UUID"),
    (rf"{_EDGE}(\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?){_END}", "TIME"),
    (rf"{_EDGE}([\w.+-]+@[\w-]+(?:\.[\w-]+)+){_END}", "EMAIL"),
    (rf"{_EDGE}(\d{{1,3}}\.\d{{1,3}}\.\d{{1,3}}\.\d{{1,3}}){_END}", "IP"),
    (rf"{_EDGE}((?:[0-9a-f]{{2,}}:){{3,}}[0-9a-f]{{2,}}){_END}", "ID"),
    (rf"{_EDGE}(0x[a-fA-F0-9]+){_END}", "HEX"),
    (rf"{_EDGE}(?=[a-fA-F]*[0-9])([0-9a-fA-F]{{8,}}){_END}", "SEQ"),
    (rf"{_EDGE}([\-\+]?\d+){_END}", "NUM"),
)


def mine(texts: Sequence[str]) -> None:
    """Group `texts` with drain3, from an empty state. Call `ready` first."""
    from drain3 import TemplateMiner  # noqa: PLC0415 - only the measurement needs it
    from drain3.masking import MaskingInstruction  # noqa: PLC0415
    from drain3.template_miner_config import TemplateMinerConfig  # noqa: PLC0415

    logging.getLogger("drain3").setLevel(logging.WARNING)
    config: Any = TemplateMinerConfig()
    config.profiling_enabled = False
    config.masking_instructions = [MaskingInstruction(pattern, name) for pattern, name in MASKS]
    miner = TemplateMiner(config=config)
    for text in texts:
        miner.add_log_message(text)


def ready(folder: Path) -> None:
    """Make drain3 importable: if it is not installed, it is put into `folder`. Raises BenchError."""
    sys.path.append(str(folder))
    try:
        import drain3  # noqa: F401, PLC0415
    except ImportError:
        _install(folder)
        importlib.invalidate_caches()


def _install(folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        str(folder),
        "--no-deps",
        *PACKAGES,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise BenchError(f"The peer could not be installed ({why[0]}): pip install {' '.join(PACKAGES)}")
