"""The user that a run belongs to: looked up, checked while nothing has started, and become in the child."""

import os
import pwd

from chong.worker.nearest import nearest


def account_of(name: str) -> pwd.struct_passwd:
    """ValueError when there is no such user, or when this process may not become that one."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        near = nearest(name, [each.pw_name for each in pwd.getpwall()])
        hint = f", did you mean {near!r}?" if near else ""
        raise ValueError(f"user: expected a user of this machine, got {name!r}{hint}") from None
    ours = os.geteuid()
    if ours not in (0, found.pw_uid):
        raise ValueError(f"user: expected a supervisor of root or of {name!r}, got one of user {ours}")
    return found


def become(account: pwd.struct_passwd) -> None:
    """For good: real, effective and saved ids, and the groups. OSError when the kernel refuses.

    The groups come first, they need what the last step gives away.
    """
    if os.geteuid() == 0:
        os.initgroups(account.pw_name, account.pw_gid)
        os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
        os.setresuid(account.pw_uid, account.pw_uid, account.pw_uid)


def environment_of(account: pwd.struct_passwd) -> dict[str, str]:
    """The variables that say who one is."""
    name = account.pw_name
    return {"HOME": account.pw_dir, "USER": name, "LOGNAME": name, "SHELL": account.pw_shell or "/bin/sh"}
