"""The figures of a store as one page for a browser, which loads nothing and runs nothing.

Knows figures and no store: ``charts`` draws them, ``page.html`` and ``page.css`` are what the page looks like.
"""

from .page import is_page, render_page

__all__ = ["is_page", "render_page"]
