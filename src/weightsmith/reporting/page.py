"""One HTML page from sections, which needs nothing but itself: no network, no other file, no script to be read.

Names come from files and may hold anything. Jinja escapes all text, what acts in it is shown as a sign, and the page's
own policy allows no script but the one it came with, by its digest, and no address to load anything from.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence

from weightsmith._version import __version__
from weightsmith.core.errors import UsageError
from weightsmith.reporting._blocks import paragraphs
from weightsmith.reporting._views import section_views
from weightsmith.reporting._words import LONGEST_NAME, plain
from weightsmith.reporting.parts import Section

__all__ = ["render"]

_ROOM = 2_600_000  # bytes for all sections, so that a page stays below 3 MB


def render(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """The page of these sections as text, below 3 MB; write it as UTF-8. Equal sections give equal bytes.

    Figures are drawn here, by calling each :class:`~weightsmith.reporting.parts.Drawing`. What there is no room for is
    left out, options of choices first, and the page says how much that is.
    """
    if not sections:
        raise UsageError(f"the page {title!r} has no sections: there is nothing to write")
    import jinja2
    from markupsafe import Markup

    loader = jinja2.PackageLoader("weightsmith.reporting", "templates")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["breakable"] = _breakable
    # As the elements will hold them: a browser takes the digest of exactly these letters.
    script, style = (Markup(loader.get_source(environment, name)[0]) for name in ("page.js", "page.css"))
    page = environment.get_template("report.html").render(
        title=plain(title, LONGEST_NAME),
        lead=paragraphs(lead),
        sections=section_views(sections, _ROOM),
        version=__version__,
        style=style,
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    # The words of a figure may hold half a surrogate pair, which no file can.
    return page.strip().encode("utf-8", "replace").decode() + "\n"


def _breakable(name: str) -> str:
    """A name that may be broken after a dot, a slash or an underscore, escaped."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"([._/])(?=\S)", r"\1<wbr>", str(escape(name))))
