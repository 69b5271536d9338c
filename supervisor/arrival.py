"""What a term meets when it begins, before any store: the forkservers that live, and the work that was accepted."""

import os
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

import structlog

from chong.store.model import NodeRecord, TermRecord
from chong.supervisor.forkservers import attach_all, locked_generations
from chong.supervisor.machine import boot_id, host_name, machine_id
from chong.supervisor.processes import Processes
from chong.supervisor.scene import Scene
from chong.supervisor.settings import Settings
from chong.supervisor.spool import Spool


def term_record(settings: Settings, name: str, *, node_id: str, lock_inode: int) -> TermRecord:
    return TermRecord(
        term=name,
        node=settings.node,
        node_id=node_id,
        boot_id=boot_id(),
        lock_inode=lock_inode,
        started_at=datetime.now(UTC),
    )


def node_record(settings: Settings, term: TermRecord, containment: str) -> NodeRecord:
    return NodeRecord(
        node=settings.node,
        node_id=term.node_id,
        term=term.term,
        host=host_name(),
        machine_id=machine_id(),
        boot_id=term.boot_id,
        pid=os.getpid(),
        version=version("chong"),
        ttl=timedelta(seconds=settings.lease_seconds),
        containment=containment,
        limits={"node": settings.max_parallel, "per_bucket": settings.max_parallel_per_bucket},
        started_at=term.started_at,
    )


def arrive(
    settings: Settings,
    processes: Processes,
    spool: Spool,
    records: tuple[TermRecord, NodeRecord],
    log: structlog.typing.FilteringBoundLogger,
) -> tuple[dict[str, Any], Scene]:
    """Attach to what lives and read what was accepted; returns the memos of the runs by their names, and the scene."""
    term, node = records
    paths = settings.paths
    found = attach_all(
        paths, settings.hold, lambda number, why: log.warning("forkserver_silent", generation=number, error=why)
    )
    memos: dict[str, Any] = {}
    for each in found:
        memos |= processes.hold(each)
        log.info("attached", generation=each.generation.number, runs=len(each.workers))
    spooled = spool.replay()
    for what in spooled.unreadable:
        log.error("spool_row_unreadable", what=what, kept="table unreadable of the spool")
    return memos, Scene(
        term=term,
        node=node,
        owned_buckets=settings.owned_buckets,
        num_buckets=settings.num_buckets,
        ttl=node.ttl,
        paths=paths,
        attached=frozenset(memos),
        served=frozenset((name, each.generation.number) for each in found for name in each.generation.served),
        silent=locked_generations(paths) - {each.generation.number for each in found},
        accepted=spooled.submissions,
        stored=frozenset(spooled.stored),
        unsent=tuple(spooled.unsent),
        spool_terms=spooled.terms,
    )
