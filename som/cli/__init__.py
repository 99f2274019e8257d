"""The command `som`, one sub-command per file: each translates its flags, calls one function and prints the result.

Nothing heavy is imported before a command runs, so that help and mistakes answer at once.
"""

from som.cli.entry import USER_ERRORS, main
from som.cli.options import positive, progress_bars_only_in_terminals

__all__ = ["USER_ERRORS", "main", "positive", "progress_bars_only_in_terminals"]
