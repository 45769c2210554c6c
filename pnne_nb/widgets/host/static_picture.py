"""The static picture under a widget, which stays in the saved notebook."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, NoReturn, final

from IPython.display import DisplayHandle, display

from pnne_nb.errors import no_attribute
from pnne_nb.graph.render.html import image_with_text, png
from pnne_nb.graph.render.svg import ThemeName
from pnne_nb.process.fork import fork_safe
from pnne_nb.process.idle import OutOfDateError, idle_work
from pnne_nb.widgets.host.canvas import Canvas
from pnne_nb.widgets.host.displays import Displays

_NOTE: Final = "<p><small>This is a picture. Run the cell to work with the widget.</small></p>"
"""Note under the picture where the widget is not live: in a saved notebook, or a host that cannot load widgets."""

QUIET: Final = 2.0
"""Least seconds without a change before the picture is redrawn."""

_SHARE: Final = 0.05  # largest share of the time for drawing

_LIVE: Final = ".pnne-editor,.pnne-dashboard,.pnne-explorer,.pnne-figure,.pnne-app,.pnne-quantization"

# Hides the picture while a widget is live in the same cell (of JupyterLab, Notebook 7's and Voila's outputs), and otherwise
# JupyterLab's note that it found no widget. Viewers that remove styles have no live widgets. An image follows the theme of
# JupyterLab instead of the system's.
_STYLE: Final = f"""
.jp-OutputArea:has({_LIVE}) .jp-OutputArea-child:has(.pnne-kept){{display:none}}
.output_container:has({_LIVE}) .pnne-kept{{display:none}}
#output-area:has({_LIVE}) .pnne-kept{{display:none}}
.jp-OutputArea:has(.pnne-kept) .jp-OutputArea-output.lm-Panel:not(:has(*)){{display:none}}
.pnne-kept figure{{margin:0}}
.pnne-kept img{{max-width:100%}}
[data-jp-theme-light=true] .pnne-kept img{{color-scheme:light}}
[data-jp-theme-light=false] .pnne-kept img{{color-scheme:dark}}
""".replace("\n", "")  # as in notebooks that are saved already


class Still(NamedTuple):
    """The contents of a static picture, as an image and as text.

    Attributes:
        title: Title of the picture.
        alternative: Alternative text, a sentence.
        items: The full contents as lines of text.
        svg: Returns the picture as SVG in a theme.
    """

    title: str
    alternative: str
    items: Sequence[str]
    svg: Callable[[ThemeName], str]


def described(lines: Sequence[str]) -> str:
    """Return lines of text, shortened to at most 300 words."""
    kept, left = list[str](), WORDS - 4
    total = sum(len(line.split()) for line in lines)
    for line in lines if total > WORDS else ():
        words = line.split()[:left]
        left -= len(words)
        kept += [" ".join(words)] if words else []
    return "\n".join([*kept, f"… {total - WORDS + 4} more words"] if kept else lines)


WORDS: Final = 300
"""Most words of a description."""

SHOWN: Final = dict.fromkeys(
    ("display", "render", "show"), "display(widget), or its name as the last line of a cell; to_svg() is a picture"
)
"""What to call instead of methods that show figures in other libraries."""


class Pictured:
    """Base class of what can be drawn without a browser.

    Attributes:
        elsewhere: What to write instead of attributes that it lacks.
    """

    elsewhere: ClassVar[Mapping[str, str]] = MappingProxyType(SHOWN)

    if not TYPE_CHECKING:  # for a type checker, the class would then have any attribute

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name, self.elsewhere)

    def still(self) -> Still:
        """Return the current contents of the picture."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return in at most 300 words of plain text what is on the screen."""
        still = self.still()
        return described([still.title, *(item for item in still.items if item != still.title)])

    def to_svg(self, theme: ThemeName = "auto") -> str:
        """Draw it as SVG.

        Args:
            theme: ``"light"`` or ``"dark"``; ``"auto"`` follows the reader's system.

        Raises:
            ArgumentError: If `theme` is unknown.
        """
        return self.still().svg(theme)

    def to_html(self, theme: ThemeName = "auto") -> str:
        """Draw it as an HTML image, followed by its contents as a list, for viewers of saved notebooks.

        Raises:
            ArgumentError: If `theme` is unknown.
        """
        still = self.still()
        return image_with_text(still.title, still.alternative, still.items, still.svg(theme))

    def to_png(self, theme: ThemeName = "light", *, scale: float = 2.0) -> bytes:
        """Draw it as PNG.

        Args:
            theme: ``"light"``, ``"dark"`` or ``"auto"``.
            scale: Pixels of the result for each pixel of the picture.

        Raises:
            ArgumentError: If `theme` is unknown.
            PnneError: If the extra ``pnne_nb[png]`` is not installed.
        """
        return png(self.to_svg("light" if theme == "auto" else theme), scale)


class Kept:
    """Base class of widgets that keep a static picture under them, or stand on a canvas where a page cannot load them."""

    _kept: KeptPicture

    def _ipython_display_(self, **_: object) -> None:
        self._kept.show_under(self)

    def _display_(self) -> Canvas:
        """Return what marimo shows, which can load widgets of anywidget only."""
        return Canvas(self)


@final
@dataclass(frozen=True)
class Card:
    """An answer that stays in a notebook: its pictures and its text, and the code that makes it again.

    Attributes:
        title: What was asked.
        code: Lines of Python.
        html: The answer, without a script.
    """

    title: str
    code: str
    html: str

    def __repr__(self) -> str:
        return f"Card({self.title!r})"

    def _repr_html_(self) -> str:
        title, code = escape(self.title), escape(self.code)
        return (
            f'<div class="pnne-card" style="border-top:1px solid #8886;padding:6px 0" role="group" aria-label="{title}">'
            f"<strong>{title}</strong>{self.html}<pre><code>{code}</code></pre></div>"
        )


@final
class KeptPicture:
    """A widget's static picture in a second output of its cell; Jupyter cannot put it into the widget's own output.

    Args:
        title: Title of the picture, the same in every run of the notebook.
        draw: Returns the picture as HTML.
        is_quick: Returns whether drawing is fast enough for the cell to wait.
    """

    def __init__(
        self, title: Callable[[], str], draw: Callable[[], str], is_quick: Callable[[], bool] = lambda: True
    ) -> None:
        self._title = title
        self._draw = draw
        self._is_quick = is_quick
        self._lock = fork_safe(threading.Lock())
        self._handle: DisplayHandle | None = None
        self._timer: threading.Timer | None = None
        self._again = False
        self._pause = QUIET
        self._report = ""
        self._instead: Any = None
        self._cards: list[Card] = []

    def add_report(self, html: str) -> None:
        """Show a report under the picture, in place of the last one."""
        self._report = html
        self.changed()

    def show_instead(self, widget: Any) -> None:
        """Show another widget in the place of the picture, which a saved notebook still has; it closes with this one."""
        self._instead = widget
        self.redraw()

    def add_card(self, card: Card) -> None:
        """Show a card under the widget and its picture, from now on."""
        self._cards.append(card)
        self.redraw()

    def show_under(self, widget: Any, in_view: Callable[[Any], bool] | None = None) -> None:
        """Show a widget and its picture in the running cell; other cells' are redrawn. `in_view` is as for `Displays.shown`."""
        Displays.here().shown(widget, in_view)
        shown = widget._repr_mimebundle_() or {}
        bundle, metadata = shown if isinstance(shown, tuple) else (shown, {})  # anywidget gives both
        display(bundle, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]  # IPython's
        with self._lock:
            if self._handle is None:
                self._handle = DisplayHandle()  # type: ignore[no-untyped-call]  # IPython's
            name = self._handle.display_id
        quick = self._is_quick()
        body = None if quick else "<p>The graph is large: its picture is drawn as soon as nothing changes.</p>"
        display(self._bundle(body), raw=True, display_id=name)  # type: ignore[no-untyped-call]  # IPython's
        if not quick:
            self.changed()

    def changed(self) -> None:
        """Redraw the picture when nothing has changed for a while."""
        with self._lock:
            if self._handle is None:
                return
            self._again = self._timer is not None
            if self._timer is None:
                self._wait()

    def redraw(self) -> None:
        """Redraw the picture now, if a cell shows it."""
        with self._lock:
            handle = self._handle
        if handle is not None:
            handle.update(self._bundle(), raw=True)  # type: ignore[no-untyped-call]  # IPython's

    def close(self) -> None:
        """Stop redrawing the picture."""
        with self._lock:
            self._handle = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        instead, self._instead = self._instead, None
        if instead is not None:
            instead.close()

    def _wait(self) -> None:
        self._timer = threading.Timer(self._pause, self._rested)
        self._timer.daemon = True
        self._timer.start()

    def _rested(self) -> None:
        with self._lock:
            if self._handle is None:
                return
            if self._again:
                self._again = False
                self._wait()
                return
            self._timer = None
        started = time.thread_time()
        try:
            with idle_work(lambda: self._timer is not None):
                self.redraw()
        except OutOfDateError:
            return  # `changed` has scheduled a later drawing
        self._pause = max(QUIET, (time.thread_time() - started) / _SHARE)

    def _bundle(self, body: str | None = None) -> dict[str, str]:
        shown, cards = self._draw() if body is None else body, "".join(card._repr_html_() for card in self._cards)
        kept = f'<style>{_STYLE}</style><div class="pnne-kept">{shown}{self._report}{_NOTE}</div>'
        if cards:  # they are shown while the widget is live, too, so that only the picture is hidden and not the output
            kept = kept.replace(".jp-OutputArea-child:has(.pnne-kept)", ".pnne-kept").replace("pnne-kept", "pnne-above")
        instead = {} if self._instead is None else self._instead._repr_mimebundle_()
        return instead | {"text/plain": f"Picture of {self._title()}", "text/html": f"{kept}{cards}"}
