"""The client for programs that have an event loop."""

import asyncio
import socket
from pathlib import Path
from typing import Any, TypeVar, Unpack

from chong.worker.client import talk_with
from chong.worker.exchange import ANSWER_LIMIT, AnswerLateError, AnswerLostError
from chong.worker.group_outcome import GroupOutcome
from chong.worker.outcome import Outcome
from chong.worker.plan import Plan
from chong.worker.talk import ANSWER_SECONDS, Came, Conversation, Step, Wish
from chong.worker.unix import BACKLOG_LOOK, is_connected

T = TypeVar("T")


class AsyncClient:
    """As `Client`, awaited. A call that is cancelled is forgotten by the node; what it asked for stands."""

    def __init__(
        self,
        *,
        runtime_dir: str | Path | None = None,
        state_dir: str | Path | None = None,
        node: str | None = None,
        issued_by: str | None = None,
    ) -> None:
        self._talk = talk_with(runtime_dir, state_dir, node, issued_by)

    async def submit(self, name: str, *, timeout: float = ANSWER_SECONDS, **wish: Unpack[Wish]) -> str:  # noqa: ASYNC109
        return await self._carry_out(self._talk.submit(name, timeout, **wish))

    async def get(self, task_id: str, *, timeout: float = ANSWER_SECONDS) -> Outcome:  # noqa: ASYNC109
        return await self._carry_out(self._talk.get(task_id, timeout))

    async def wait(self, task_id: str, *, timeout: float | None = None) -> Outcome:  # noqa: ASYNC109
        return await self._carry_out(self._talk.wait(task_id, timeout))

    async def result(self, task_id: str, *, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        return await self._carry_out(self._talk.result(task_id, timeout))

    async def stop(
        self,
        task_id: str,
        *,
        reason: str | None = None,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - as the other client has it
    ) -> Outcome:
        return await self._carry_out(self._talk.stop(task_id, reason, timeout, wait=wait))

    async def submit_group(
        self,
        plan: Plan,
        *,
        group_id: str | None = None,
        timeout: float = ANSWER_SECONDS,  # noqa: ASYNC109
    ) -> str:
        return await self._carry_out(self._talk.submit_group(plan, timeout, group_id))

    async def get_group(self, group_id: str, *, timeout: float = ANSWER_SECONDS) -> GroupOutcome:  # noqa: ASYNC109
        return await self._carry_out(self._talk.get_group(group_id, timeout))

    async def wait_group(self, group_id: str, *, timeout: float | None = None) -> GroupOutcome:  # noqa: ASYNC109
        return await self._carry_out(self._talk.wait_group(group_id, timeout))

    async def stop_group(
        self,
        group_id: str,
        *,
        reason: str | None = None,
        timeout: float = ANSWER_SECONDS,  # noqa: ASYNC109
    ) -> GroupOutcome:
        return await self._carry_out(self._talk.stop_group(group_id, reason, timeout))

    async def _carry_out(self, conversation: Conversation[T]) -> T:
        came: Came = None
        try:
            while True:
                came = await _taken(self._talk.path, conversation.send(came))
        except StopIteration as end:
            result: T = end.value
            return result


async def _taken(path: Path, step: Step) -> Came:
    if step.line is None:
        await asyncio.sleep(step.seconds or 0)
        return None
    is_sent = False
    try:
        async with asyncio.timeout(step.seconds):
            reader, writer = await _connect(path)
            is_sent = True
            return await _exchange(reader, writer, step.line)
    except TimeoutError as error:
        return AnswerLateError(str(error)) if is_sent else error
    except OSError as error:
        return error


async def _connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Not by asyncio's own call: that takes a full backlog for a connection."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.setblocking(False)
        while not is_connected(connection, path):  # noqa: ASYNC110 - no event tells of room in a backlog
            await asyncio.sleep(BACKLOG_LOOK)
        return await asyncio.open_unix_connection(sock=connection, limit=ANSWER_LIMIT)
    except BaseException:
        connection.close()
        raise


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: bytes) -> bytes:
    try:
        writer.write(line)
        await writer.drain()
        answer = await reader.readline()
    except OSError as error:
        raise AnswerLostError(str(error)) from error
    except ValueError as error:
        raise AnswerLostError(f"the answer has no end: {error}") from error
    finally:
        writer.close()
    if not answer.endswith(b"\n"):
        raise AnswerLostError("the answer has no end")
    return answer
