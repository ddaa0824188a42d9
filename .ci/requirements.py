"""Prints the requirements of pyproject.toml, one a line: `requirements.py [EXTRA]`.

Runs in: .ci/setup, under the new environment's Python. May call: the standard library, and pip's own copy of tomli
where Python (3.10) has no tomllib.
Owns: nothing; pyproject.toml is the only list of requirements.
"""

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:
    from pip._vendor import tomli as tomllib


def main() -> None:
    project = tomllib.loads(Path(__file__).resolve().parent.parent.joinpath("pyproject.toml").read_text())["project"]
    for line in project["dependencies"]:
        print(line)
    for extra in sys.argv[1:]:
        for line in project["optional-dependencies"][extra]:
            print(line)


main()
