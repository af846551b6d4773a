"""``python -m kvboost_cli``: the command of this very Python, where the ``kvboost`` script is not on the path."""

from .main import run

run()
