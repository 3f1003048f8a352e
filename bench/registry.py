"""The measurements by name."""

from collections.abc import Callable

from bench.claim import claim
from bench.cluster import cluster
from bench.consume import consume
from bench.memory import memory
from bench.pages import pages
from bench.publish import publishing
from bench.redrive import redrive
from bench.report import Report

# (quick, say) -> Report: `quick` asks for less data, `say` takes a line of progress. Raises BenchError.
BENCHES: dict[str, Callable[[bool, Callable[[str], None]], Report]] = {
    "claim": claim,
    "cluster": cluster,
    "consume": consume,
    "memory": memory,
    "pages": pages,
    "publish": publishing,
    "redrive": redrive,
}
