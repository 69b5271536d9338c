"""`chong forget`: closes what a node that is gone for good had accepted, and removes the node."""

import uuid

import click

from chong.cli import candidates
from chong.cli.invocation import Invocation
from chong.cli.option import issuer_option, json_option, reason_option
from chong.cli.reach import reach
from chong.cli.render import escape
from chong.cli.screen import print_json, show_progress
from chong.cli.shared_hold import check_node
from chong.store.contract import TaskStore
from chong.store.errors import ConfigurationError, Refused
from chong.store.forgetting import check_gone
from chong.store.pages import count_tasks
from chong.store.query import TaskQuery
from chong.store.states import RUNS, WAITING
from chong.supervisor.keys import NODE_LIMIT
from chong.supervisor.oneline import counted
from chong.supervisor.submission import check_text


@click.command()
@click.argument("node", metavar="NODE", shell_complete=candidates.gone_nodes())
@click.option("--yes", is_flag=True, help="Needed: a task that is lost cannot be had back.")
@click.option("--dry-run", is_flag=True, help="Only say what would be lost.")
@reason_option("kept with each task")
@issuer_option
@json_option
@click.pass_obj
def forget(
    call: Invocation, *, node: str, yes: bool, dry_run: bool, reason: str | None, issued_by: str, as_json: bool
) -> None:
    """Close the waiting work of a node that is gone for good.

    What is queued or retrying there becomes lost, and the node goes from the lists of nodes and owners. Its runs are
    left to their leases, see `chong reconcile`. Refused while the node is live. If it comes back it is a new node, and
    runs nothing of what was lost.
    """
    if not (yes or dry_run):
        raise ConfigurationError("--yes: expected it beside forget, got none; --dry-run counts what would be lost")
    check_text("node", node, NODE_LIMIT)
    with reach(call, whole=True) as reached:
        runs = count_tasks(reached.store, TaskQuery(node=node, statuses=RUNS))
        if dry_run:
            _check_gone(reached.store, node)
            lost = count_tasks(reached.store, TaskQuery(node=node, statuses=WAITING))
        else:
            check_node(node, [known.node for known in reached.store.nodes()])
            why = f"node {node} was forgotten" + (f": {reason}" if reason else "")
            lost = _forget(reached.store, node, issued_by, why)
    if as_json:
        return print_json({"node": node, "lost": lost, "runs": runs, "dry_run": dry_run})
    left = f"; {counted(runs, 'run')} left to the leases, see chong reconcile" if runs else ""
    done = "would be lost" if dry_run else "lost, the node is forgotten"
    return print(escape(f"node {node}: {counted(lost, 'waiting task')} {done}{left}"))


def _check_gone(store: TaskStore, node: str) -> None:
    nodes = {known.node: known for known in store.nodes()}
    check_node(node, list(nodes))
    check_gone(node, is_live=nodes[node].is_live)


def _forget(store: TaskStore, node: str, actor: str, reason: str) -> int:
    """How many waiting tasks this call has closed; somebody else may forget the node at the same time."""
    event_id = f"forget.{uuid.uuid4().hex}"
    lost = 0
    try:
        while closed := store.forget_node(node, event_id, actor=actor, reason=reason):
            lost += closed
            show_progress(f"{counted(lost, 'waiting task')} lost")
    except Refused as refusal:
        if lost and any(known.node == node for known in store.nodes()):
            raise Refused(f"{refusal}; {counted(lost, 'waiting task')} lost before") from refusal
        if not lost:
            raise
    finally:
        show_progress("")
    return lost
