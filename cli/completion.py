"""`chong completion`: what a shell needs to complete the words of `chong` and `chong-supervisor`."""

import click
from click.shell_completion import ShellComplete, get_completion_class, shell_complete

SHELLS = ("bash", "zsh", "fish")
PROGRAMS = ("chong", "chong-supervisor")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, ids and names.

    For bash, put this into ~/.bashrc: eval "$(chong completion bash)"; likewise for zsh. For fish: chong completion
    fish > ~/.config/fish/completions/chong.fish
    """
    for program in PROGRAMS:
        print(script(shell, program))


def script(shell: str, program: str) -> str:
    found = get_completion_class(shell)
    assert found is not None, shell
    asked = found(click.Command(program), {}, program, f"_{program.replace('-', '_').upper()}_COMPLETE")
    # Not `asked.source()`, which for bash starts one to look at its version.
    return ShellComplete.source(asked)


def complete(program: click.Command, instruction: str) -> int:
    """Answer a shell: `instruction` is what its script asks, and the words so far are in the environment."""
    return shell_complete(program, {}, "chong", "_CHONG_COMPLETE", instruction)
