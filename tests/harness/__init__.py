"""Helpers of the tests: programs to record, processes with a time limit, kept demos, counted skips.

Runs in: pytest. May call: the compiler, the checkout's own Python and command.
Owns: build/tests (compiled programs) and build/failed (demos of failed tests).
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build"
