"""Tasks as somebody might have written them; their tests are beside them."""

import asyncio
from pathlib import Path

from chong.worker import TaskContext, task


@task("invoices.send", retries=2)
def send(ctx: TaskContext, outbox: str, numbers: list[int]) -> dict[str, int]:
    """Put one invoice after the other into the outbox; a further attempt goes on behind the last one."""
    begin = (ctx.last_checkpoint or {"sent": 0})["sent"]
    draft = Path(outbox) / "draft"
    try:
        for sent, number in enumerate(numbers[begin:], start=begin + 1):
            draft.write_text(f"invoice {number} of {ctx.key}")
            ctx.sleep(1)  # the mail server bears no more than one a second
            draft.rename(Path(outbox) / f"{number}.txt")
            ctx.checkpoint(done=sent, total=len(numbers), state={"sent": sent})
    finally:
        draft.unlink(missing_ok=True)
    ctx.log.info("all_sent", invoices=len(numbers))
    return {"sent": len(numbers)}


@task("invoices.fetch")
async def fetch(ctx: TaskContext, numbers: list[int]) -> list[str]:
    """Ask for all of them at once."""

    async def one(number: int) -> str:
        await asyncio.sleep(0)
        return f"invoice {number}"

    found = []
    for number in numbers:
        found.append(await one(number))
        ctx.checkpoint(done=len(found), total=len(numbers))
    return found
