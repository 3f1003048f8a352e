"""The nodes of the run about leaders: three of beat and three workers for one job."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.processes import wait_for
from tests.faults import jobs
from tests.faults.nodes import Node, Nodes

_MID_RUN = """
SELECT id, run_token, split_part(node, ':', 2)::int FROM dlqadmin_trigger
WHERE job = %s AND state = 'started' AND started_at > clock_timestamp() - interval '0.2 s'
"""
_CLOCK_AHEAD = {"PYTHONPATH": str(Path(__file__).parent / "ahead")}


@dataclass(frozen=True)
class MidRun:
    """A run that began just now, in the child `pid` of a worker."""

    trigger: int
    token: int
    pid: int


class LeaderNodes(Nodes):
    """Nodes of beat, and workers for the singleton jobs."""

    handlers = "tests.faults.jobs"
    tables = jobs.EFFECTS

    def beat(self, *, ahead: bool = False, **environment: str) -> Node:
        """Start a node of beat."""
        arguments = [*self.service("beat"), "-s", str(self.logs / f"schedule-{self.started}")]
        return self._start("beat", arguments, ahead, environment)

    def worker(self, *, ahead: bool = False) -> Node:
        """Start a worker with one child, which keeps nothing that another worker could run meanwhile."""
        name = f"system{self.started}@%h"
        arguments = [*self.service("system"), "-c", "1", "--prefetch-multiplier", "1", "-n", name]
        return self._start("worker", arguments, ahead, {})

    def _start(self, kind: str, arguments: list[str], ahead: bool, environment: dict[str, str]) -> Node:
        clock = _CLOCK_AHEAD if ahead else {}
        return self.start(kind, arguments, ahead=ahead, **clock, **environment)

    def leader(self) -> Node:
        """The node of beat that leads now."""

        def find() -> Node | None:
            holder = self.one("SELECT holder FROM dlqadmin_lease WHERE name = 'beat' AND until > now()")
            pid = int(holder.rpartition(":")[2]) if holder else 0
            return next((node for node in self.all if node.process.pid == pid), None)

        found: Node = wait_for(find, "a node to lead")
        return found

    def in_mid_run(self) -> MidRun:
        """A run of the job that began a moment ago."""
        rows: list[tuple[Any, ...]] = wait_for(lambda: self.rows(_MID_RUN, jobs.NAME), "a run of the job")
        return MidRun(*rows[0])

    def worker_of(self, pid: int) -> Node:
        """The worker whose child this process is."""
        return next(node for node in self.all if node.kind == "worker" and node.has_child(pid))
