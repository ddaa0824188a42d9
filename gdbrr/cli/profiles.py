"""`gdbrr profiles`: which profiles there are, which one holds here, and every value with where it came from.

Runs in: a command of its own. May call: gdbrr.config.
Owns: how a profile reads.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gdbrr.cli.layout import Layout
from gdbrr.cli.words import say
from gdbrr.errors import GdbrrError

if TYPE_CHECKING:
    from gdbrr.config.profiles import Profile

HELP = "list the profiles, which say what a recording keeps, or show one"
DESCRIPTION = """\
A profile says what of a run goes into the demo. Without `-p`, `gdbrr record` uses the first of these that
exists:

  .gdbrr.toml                      in the directory of the program
  ~/.config/gdbrr/profile.toml     your own ($XDG_CONFIG_HOME in place of ~/.config, if set)
  default                          the shipped one

`gdbrr profiles` lists those that come with gdbrr; `gdbrr profiles show` prints every value that holds, and
where it came from.
"""
EPILOG = """\
examples:
  gdbrr profiles
  gdbrr profiles show sparse
  gdbrr profiles show ./mine.toml --set time=native
  gdbrr profiles show --program ./server     what `gdbrr record ./server` would use

docs/profiles.md explains every key.
"""
SHOW_DESCRIPTION = """\
Prints every value of a profile, and where it came from: a line of a file, `--set`, or `default` for what no
file sets.
"""


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("profiles", help=HELP, description=DESCRIPTION, epilog=EPILOG)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    program = argparse.ArgumentParser(add_help=False)
    program.add_argument("--program", metavar="PROGRAM", help="look for a profile beside PROGRAM, too")
    program.add_argument("--json", action="store_true", help="print one JSON object")
    actions.add_parser("list", help="list the profiles (the default)", parents=[program])
    show = actions.add_parser(
        "show",
        help="print every value of a profile, and where it came from",
        description=SHOW_DESCRIPTION,
        formatter_class=Layout,
        parents=[program],
    )
    show.add_argument("name", nargs="?", metavar="NAME", help="a profile or a file; without it, the one that holds")
    show.add_argument(
        "--set", action="append", default=[], metavar="CLASS=MODE", dest="sets", help="as for gdbrr record; repeatable"
    )


def main(args: argparse.Namespace) -> int:
    from gdbrr.config import profiles

    program = find_program(args.program) if getattr(args, "program", None) else None
    as_json = getattr(args, "json", False)
    if args.action == "show":
        profile = profiles.resolve(args.name, program, args.sets)
        say(
            json.dumps(profile.to_json(), indent=2)
            if as_json
            else show_text(profile, profiles.find(args.name, program))
        )
    else:
        holds = profiles.find(None, program)
        say(json.dumps(list_json(holds), indent=2) if as_json else list_text(holds, program))
    return 0


def find_program(word: str) -> Path:
    found = shutil.which(word)
    if not found:
        raise GdbrrError(f"there is no program {word}", hint="give its path, e.g. ./program")
    return Path(found)


def summaries() -> dict[str, str]:
    """Every shipped profile with the sentence that says what it is for."""
    from gdbrr.config import profiles

    return {name: profiles.about(profiles.shipped_path(name))[0] for name in profiles.SHIPPED}


def list_json(holds: Path) -> dict[str, object]:
    return {"profiles": summaries(), "holds": str(holds)}


def list_text(holds: Path, program: Path | None) -> str:
    from gdbrr.config import profiles

    width = max(map(len, profiles.SHIPPED))
    lines = [f"{name:{width}}  {text}" for name, text in summaries().items()]
    lines += ["", f"Without -p{f', for {program}' if program else ''}, the first of these that exists is used:"]
    for owner, path in profiles.candidates(program):
        used = "  <- used" if path == holds else "" if path.is_file() else "  (not there)"
        lines.append(f"  {owner + ':':14} {'default' if owner == 'shipped' else path}{used}")
    lines += ["", "`gdbrr profiles show NAME` prints every value and where it came from."]
    return "\n".join(lines)


def show_text(profile: Profile, path: Path) -> str:
    from gdbrr.config import profiles, schema

    rows = [("KEY", "VALUE", "FROM")]
    rows += [(key, schema.key(key).text(value.value), value.origin) for key, value in profile.values.items()]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"profile {profile.name}"]
    lines += [f"  {line}" for line in profiles.about(path)]
    lines += ["", *(f"{key:{widths[0]}}  {value:{widths[1]}}  {origin}" for key, value, origin in rows)]
    return "\n".join(lines)
