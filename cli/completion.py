"""`chong completion`: what a shell needs to complete the words of `chong` and `chong-supervisor`."""

from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    shell_complete,
)

PROGRAMS = ("chong", "chong-supervisor")

# Bash cuts a line at COMP_WORDBREAKS, of which ":", "=" and "@" stand in our words, and replaces only what follows the
# last of them. So what no blank parts is put together again, and of an answer goes what stands there already.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' rest=${COMP_LINE:0:COMP_POINT} words=() word i breaks kept= type value
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || word=${rest#"${rest%%%%[![:blank:]]*}"}
        if ((i == 0)) || [[ $rest == [[:blank:]]* ]]; then
            words+=("$word")
        else
            words[${#words[@]}-1]+=$word
        fi
        rest=${rest#*"$word"}
    done
    word=${words[${#words[@]}-1]}
    breaks=${COMP_WORDBREAKS//[^=:@]/}
    [[ -z $breaks ]] || kept=${word%%"${word##*[$breaks]}"}
    while IFS=, read -r type value; do
        case $type in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("${value#"$kept"}") ;;
        esac
    done < <(env COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete $1)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _WholeWords(ShellComplete):
    """The answer to `--status=ru` is `--status=running`: shells replace words, not what click takes for a value."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        name, equals, _ = incomplete.partition("=")
        head = name + equals if equals and name.startswith("-") else ""
        found = super().get_completions(args, incomplete)
        return [CompletionItem(head + item.value, item.type, item.help) for item in found]


class _Bash(_WholeWords, BashComplete):
    source_template = _BASH

    def source(self) -> str:
        return ShellComplete.source(self)  # click's own starts a bash to look at its version


class _Zsh(_WholeWords, ZshComplete):
    pass


class _Fish(_WholeWords, FishComplete):
    pass


SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, ids and names.

    For bash, put this into ~/.bashrc: eval "$(chong completion bash)"; likewise for zsh. For fish: chong completion
    fish > ~/.config/fish/completions/chong.fish
    """
    for program in PROGRAMS:
        print(script(shell, program))


def script(shell: str, program: str) -> str:
    variable = f"_{program.replace('-', '_').upper()}_COMPLETE"
    return SHELLS[shell](click.Command(program), {}, program, variable).source()


def complete(program: click.Command, instruction: str) -> int:
    """Answer a shell: `instruction` is what its script asks, and the words so far are in the environment."""
    for name, found in SHELLS.items():
        add_completion_class(found, name)
    return shell_complete(program, {}, "chong", "_CHONG_COMPLETE", instruction)
