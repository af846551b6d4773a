"""What a command refuses by itself; all else that can go wrong is told by the packages below, or by the parser."""


class ChatCommandRefused(Exception):
    """A chat's line that begins with a slash is none of the commands, or lacks what it needs."""
