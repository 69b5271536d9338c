"""Options that choose tasks, the same ones for reading and for acting."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from chong.cli import candidates
from chong.cli.values import read_group, read_moment, read_status, reads
from chong.store.buckets import BucketPolicy, format_buckets, parse_buckets
from chong.store.errors import ConfigurationError
from chong.store.query import TaskQuery
from chong.store.states import Status

_OPTIONS = (
    click.option("--bucket", metavar="LIST", callback=reads(parse_buckets), help="Buckets like 3 or 0-15,20."),
    click.option(
        "--status",
        metavar="STATUS",
        multiple=True,
        callback=reads(read_status),
        shell_complete=candidates.values(candidates.statuses),
        help=f"{', '.join(Status)}; more than one: any.",
    ),
    click.option(
        "--name",
        multiple=True,
        shell_complete=candidates.names_everywhere(),
        help="Task name; more than one: any of them.",
    ),
    click.option(
        "--tag", multiple=True, shell_complete=candidates.kept(candidates.tags), help="Tag; more than one: all of them."
    ),
    click.option("--node", shell_complete=candidates.nodes(), help="Node that the task belongs to."),
    click.option("--key", shell_complete=candidates.kept(candidates.keys), help="Bucket key of the task."),
    click.option("--group", metavar="ID", callback=reads(read_group), help="Group that the task is a member of."),
    click.option("--since", callback=reads(read_moment), help='Created in the last "2h", or since an ISO time (UTC).'),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions that all have to hold."""

    bucket: frozenset[int] | None = None
    status: tuple[Status, ...] = ()
    name: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    node: str | None = None
    key: str | None = None
    group: str | None = None
    since: datetime | None = None

    @property
    def is_empty(self) -> bool:
        return self == Filter()

    def query(self, policy: BucketPolicy, statuses: frozenset[Status], *, limit: int) -> TaskQuery:
        """The query for tasks in one of `statuses`; ConfigurationError for a bucket that does not exist."""
        check_buckets(policy, self.bucket or ())
        return TaskQuery(
            buckets=self.bucket,
            statuses=statuses,
            names=frozenset(self.name) or None,
            tags=frozenset(self.tag),
            node=self.node,
            key=self.key,
            group=self.group,
            since=self.since,
            limit=limit,
        )


def check_buckets(policy: BucketPolicy, buckets: Iterable[int]) -> None:
    """ConfigurationError for a bucket that does not exist."""
    strangers = [bucket for bucket in buckets if bucket >= policy.num_buckets]
    if strangers:
        raise ConfigurationError(f"--bucket: expected 0 to {policy.num_buckets - 1}, got {format_buckets(strangers)}")


def filtered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options and hand them to the command as `chosen`."""

    @functools.wraps(function)
    def collected(*args: Any, **said: Any) -> Any:
        chosen = Filter(**{name: said.pop(name) for name in Filter.__dataclass_fields__})
        return function(*args, chosen=chosen, **said)

    for add in reversed(_OPTIONS):
        collected = add(collected)
    return collected
