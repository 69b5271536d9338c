"""The command that makes and upgrades a store's tables."""

import click

from chong.cli.invocation import Invocation, check_number
from chong.cli.render import escape
from chong.store.open import file_of, open_store
from chong.supervisor.exits import Exit


@click.command()
@click.pass_obj
def migrate(call: Invocation) -> Exit:
    """Make the store's tables, or bring them up to this version.

    For a role that may create tables: supervisors do the same at their start, and need no such right afterwards. With
    --num-buckets the number of buckets is recorded, if none is yet. Only adds, so nodes are upgraded one by one.
    """
    with open_store(call.url) as store:
        deployment = store.deployment()
        check_number(call.config.find("num_buckets"), deployment.num_buckets)
        call.agreed_policy(deployment.num_buckets)
        if call.num_buckets is not None:
            deployment = store.record_num_buckets(call.num_buckets)
            # Somebody else may have been faster.
            check_number(call.config.find("num_buckets"), deployment.num_buckets)
    buckets = (
        "number of buckets not recorded yet" if deployment.num_buckets is None else f"{deployment.num_buckets} buckets"
    )
    print(f"store {escape(_label(call.url))}: schema {deployment.schema_version}, {buckets}")
    return Exit.DONE


def _label(url: str) -> str:
    """As errors name the store."""
    if file_of(url) is not None:
        return url
    from chong.store.postgres_address import label_of, parsed  # noqa: PLC0415 -- needs the driver

    return label_of(parsed(url))
