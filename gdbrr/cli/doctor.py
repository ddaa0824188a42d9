"""`gdbrr doctor`: what this machine allows, what it means, and how to mend it.

Runs in: a command of its own. May call: gdbrr.launch.doctor.
Owns: how a report reads.
"""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any

import gdbrr
from gdbrr.cli.words import say
from gdbrr.launch import doctor

HELP = "find out what this machine allows, what it means, and how to mend it"
DESCRIPTION = """\
Tries everything that recording, replaying and going back need, each in a child process with a time
limit, so that nothing can hang or do harm. For each it says whether it is

  ok        there, and used
  limited   something works less well, or not at all; recording works
  missing   not there

and, unless it is ok, how to mend it. Exits with 0 if this machine can record, with 1 if not.
"""
EPILOG = """\
examples:
  gdbrr doctor            read it
  gdbrr doctor --json     put it into a bug report
"""
WIDTH = 100
INDENT = 28


def add(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help=HELP,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def main(args: argparse.Namespace) -> int:
    report = doctor.examine_all()
    say(json.dumps(as_json(report), indent=2) if args.json else as_text(report))
    return 0 if report.can_record else 1


def as_json(report: doctor.Report) -> dict[str, Any]:
    return {
        "gdbrr": gdbrr.__version__,
        "can_record": report.can_record,
        "findings": [
            {
                "name": probe.name,
                "required": probe.required,
                "status": finding.status.value,
                "found": finding.found,
                "meaning": finding.meaning,
                "mend": finding.mend,
            }
            for probe, finding in report.findings
        ],
    }


def as_text(report: doctor.Report) -> str:
    lines = [f"gdbrr {gdbrr.__version__}", ""]
    for probe, finding in report.findings:
        lines.append(f"{finding.status.value:8}  {probe.name:16}  {finding.found}")
        lines.extend(paragraph(finding.meaning))
        if finding.mend:
            lines.extend(paragraph(f"to mend: {finding.mend}"))
    limited = sum(finding.status is not doctor.Status.OK for _, finding in report.findings)
    lines.append("")
    if not report.can_record:
        lines.append("This machine cannot record: mend what is missing first.")
    elif limited:
        lines.append(f"This machine can record. {limited} of {len(report.findings)} findings could be better.")
    else:
        lines.append("This machine can record, and nothing is missing.")
    return "\n".join(lines)


def paragraph(text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=" " * INDENT, subsequent_indent=" " * INDENT, break_on_hyphens=False
    )
