"""The one error type that the demo turns into a single line and exit status 1."""


class DemoError(Exception):
    """Something the person at the keyboard can put right; its text says what and how."""
