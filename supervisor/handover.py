"""What a task is handed as it starts: its parameters, and the state that its last attempt has kept."""

from typing import Any

import structlog

from chong.store.errors import ConfigurationError
from chong.supervisor.go import go_frame
from chong.supervisor.paths import Paths
from chong.supervisor.spool import Spool, UnreadableState
from chong.supervisor.spool_file import SpoolError
from chong.supervisor.task_state import TaskState


class ParamsGone(Exception):  # noqa: N818 - a finding
    """The parameters cannot be read, now or later."""


class Handover:
    """Reads them from the spool at the moment at which they are needed."""

    def __init__(self, paths: Paths, spool: Spool, log: structlog.typing.FilteringBoundLogger) -> None:
        self._paths = paths
        self._spool = spool
        self._log = log

    def frame(self, number: tuple[int, int], state: TaskState) -> bytes:
        """The `go` frame; ParamsGone, or SpoolError or OSError when the node cannot read or write at the moment."""
        params = self._params(state.task.id)
        last = self._last_state(state.task.id)
        return go_frame(number, state, params, last, self._paths.run_dir(state.task.run))

    def _params(self, task_id: str) -> dict[str, Any]:
        try:
            found = self._spool.submission(task_id)
        except SpoolError as error:
            if error.is_damaged:
                raise ParamsGone(str(error)) from error
            raise
        except (ValueError, ConfigurationError) as error:
            raise ParamsGone(str(error)) from error
        if found is None:
            raise ParamsGone("the submission is not in the spool")
        return dict(found.params)

    def _last_state(self, task_id: str) -> Any:
        """None when it cannot be read: the attempt then begins without one, as a first one does."""
        try:
            return self._spool.last_state(task_id)
        except UnreadableState as error:
            self._log.error("state_unreadable", task=task_id, error=str(error))
            return None
