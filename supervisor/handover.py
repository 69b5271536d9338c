"""What a task is handed as it starts: its parameters, and the state that its last attempt has kept."""

from typing import Any

import structlog

from chong.store.errors import ConfigurationError
from chong.supervisor.checkpoints import Unreadable
from chong.supervisor.files import is_about_file
from chong.supervisor.go import go_frame
from chong.supervisor.paths import Paths
from chong.supervisor.spool import Spool
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
        """The `go` frame; ParamsGone, or OSError when the node can read or write no file at the moment."""
        params = self._params(state.task.id)
        last = self._last_state(state.task.id)
        return go_frame(number, state, params, last, self._paths.run_dir(state.task.run))

    def _params(self, task_id: str) -> dict[str, Any]:
        try:
            return self._spool.params(task_id)
        except OSError as error:
            if is_about_file(error):
                raise ParamsGone(str(error)) from error
            raise
        except (ValueError, ConfigurationError) as error:
            raise ParamsGone(str(error)) from error

    def _last_state(self, task_id: str) -> Any:
        """None when it cannot be read: the attempt then begins without one, as a first one does."""
        try:
            return self._spool.last_state(task_id)
        except Unreadable as error:
            self._log.error("state_unreadable", task=task_id, path=str(error.path), error=str(error.__cause__))
            return None
