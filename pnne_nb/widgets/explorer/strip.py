"""The strip above the explorer: one example, its target, the likeliest answers, and the controls that choose another."""

from __future__ import annotations

import html
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final, final

import ipywidgets
import numpy as np
import torch
from torch import Tensor

from pnne_nb.inspector.capture.hooks import tensors_in
from pnne_nb.runtime.evaluation import fingerprint
from pnne_nb.widgets.explorer.answers import MAX_ASKED, Access, Answer, Answers, Likely, refused, tokens_html
from pnne_nb.widgets.explorer.own_example import OwnExample
from pnne_nb.widgets.explorer.what_if import WhatIf
from pnne_nb.widgets.host.displays import answer_while_busy, button, chooser
from pnne_nb.widgets.host.examples import OWN
from pnne_nb.widgets.host.images import coloured, data_url, picture, tiles_of

ORDERS: Final = ("index", "loss", "confidence", "mistakes")

_TABLE: Final = 32
"""Most numbers of a row that are shown as a table."""

_TOKENS: Final = 200
"""Most tokens that are shown, the last ones."""

_ANY: Final = -1


@final
class Strip(ipywidgets.VBox):
    """Shows one example, and walks through all of them.

    Args:
        access: How it gets at the model.
        changed: Called when another example was chosen.
    """

    _opened: ClassVar[weakref.WeakSet[Strip]] = weakref.WeakSet()

    def __init__(self, access: Access, changed: Callable[[], None]) -> None:
        self._asked, self._alone, self._changed = access.asked, access.alone, changed
        self.what_if = WhatIf(access, self.refresh)
        self._places: Sequence[int] = ()
        self._answers: Answers | None = None
        self._filling = False
        self._refused = ""
        self.answer: Answer | None = None
        self.after: Answer | None = None
        self.number = ipywidgets.BoundedIntText(description="Example", layout=ipywidgets.Layout(width="150px"))
        self._back, self._forward = (
            button("", f"{word} example", partial(self.step, by), icon=f"chevron-{way}")
            for way, word, by in (("left", "Previous", -1), ("right", "Next", 1))
        )
        self._order, self._true, self._predicted = (
            chooser(options, words, lambda: None if self._filling else self._arrange())
            for options, words in ((ORDERS, "Order by"), ([("any", _ANY)], "True"), ([("any", _ANY)], "Predicted"))
        )
        self._said = ipywidgets.HTML()
        self._shown = ipywidgets.HTML()
        self._browse = self._order, self._true, self._predicted
        controls = self.number, self._back, self._forward, *self._browse
        bar = ipywidgets.HBox([*controls, self._said], layout=ipywidgets.Layout(flex_flow="row wrap"))
        self.own = OwnExample(access, lambda: self.example, self.bring)
        super().__init__([bar, self._shown, self.own, self.what_if])
        self.add_class("pnne-strip")
        self.number.observe(lambda _change: None if self._filling else self.bring(None), "value")
        answer_while_busy(self.number)
        self.use()
        self._opened.add(self)

    def __repr__(self) -> str:
        return f"Strip(example {self.example})"

    @property
    def example(self) -> int:
        """The number of the example that is shown; `OWN` for one that was brought."""
        return OWN if self._asked().examples.own is not None else int(self.number.value)

    def close(self) -> None:
        """Close the widget."""
        self._opened.discard(self)
        super().close()

    def bring(self, inputs: object) -> None:
        """Show an example that is none of the data, as the model takes it; None goes back to the data."""
        self._asked().examples.own = inputs
        self._move()

    def use(self) -> None:
        """Begin with the first of the examples."""
        asked = self._asked()
        self._answers, self._filling = None, True
        self._places = range(asked.examples.count)
        self.number.max = asked.examples.count - 1
        self.number.value = next((one.example for one in self._others() if one.example != OWN), 0)
        names = [(name, place) for place, name in enumerate(asked.labels or ())]
        for one in (self._true, self._predicted):
            one.options = [("any", _ANY), *names]
            one.value = _ANY
        self._order.value, self._filling, self._refused = "index", False, ""
        for control in (self.number, self._back, self._forward, *self._browse, self._said):
            control.layout.display = "none" if asked.examples.count < 2 else ""
        self.layout.display = "" if asked.examples.given else "none"
        self.refresh()

    def forget(self) -> None:
        """Ask again: the model may be another."""
        self._answers = None
        self.refresh()

    def choose(self, place: int) -> None:
        """Show the example `place`."""
        if place == self.number.value:
            self.bring(None)
        self.number.value = place

    def pair(self, true: int, predicted: int) -> None:
        """Show the examples of one class that are taken for another."""
        self._filling = True
        self._name_classes()
        self._true.value, self._predicted.value = true, predicted
        self._filling = False
        self._arrange()

    def is_of(self, key: str) -> bool:
        """Return whether a table with this `key` was made of the same targets."""
        examples = self._asked().examples
        if not key.startswith(f"{examples.count}-"):
            return False
        own = examples.fingerprint()
        found = self.all() if not own and examples.count <= MAX_ASKED else None
        return key == (own if found is None else fingerprint(torch.from_numpy(found.true)))

    def step(self, way: int) -> None:
        """Go to the next example of the chosen order, or with -1 to the one before."""
        places = list(self._places)
        if places:
            at = places.index(self.example) + way if self.example in places else 0
            self.number.value = places[at % len(places)]

    def lines(self) -> list[str]:
        """Return what is shown as lines of plain text."""
        if not self._asked().examples.given:
            return []
        own = self.example == OWN
        said = ["Your own example" if own else f"Example {self.example} of {self._asked().examples.count}"]
        said += [f"Target: {self._target()}"] if self._target() else []
        said += [f"Answer: {self.answer}"] if self.answer is not None else []
        said += self.what_if.lines()
        said += [f"Answer with the changes: {self.after}"] if self.after is not None else []
        chosen = [f"{one.description.lower()} {one.label}" for one in self._browse if one.value not in ("index", _ANY)]
        said += [f"Browsed: {', '.join(chosen)}; {len(self._places)} examples"] if chosen else []
        return [*said, *([self._refused] if self._refused else [])]

    def all(self) -> Answers | None:
        """Return the answers for all examples, or None where they could not be had; the strip says why."""
        if self._answers is None:
            try:
                self._answers = self._alone(self._asked().all)
            except Exception as error:  # noqa: BLE001  the model's own errors are shown where they were provoked
                self._say(f"The model failed on the data: {type(error).__name__}: {error}")
        return self._answers

    def refresh(self) -> None:
        """Show the example with its answer."""
        if not self._asked().examples.given:
            return
        self.answer, self.after, self._refused = None, None, ""
        try:
            self.answer = self._alone(lambda: self._asked().one(self.example))
            changes = self.what_if.changes()
            self.after = self._alone(lambda: self._asked().one(self.example, changes)) if changes else None
        except Exception as error:  # noqa: BLE001  the model's own errors are shown where they were provoked
            self._refused = f"The model failed on this example: {type(error).__name__}: {error}"
        self._shown.value = self._html()
        self.own.follow()

    def _move(self) -> None:
        self._tell()
        self.refresh()
        self._changed()
        for other in self._others() if self.example != OWN else ():
            if other.example != self.example:
                other.choose(self.example)

    def _others(self) -> list[Strip]:
        """Return the other views of the model, all of which show one example."""
        return [one for one in self._opened if one is not self and one._asked().same(self._asked())]

    def _arrange(self) -> None:
        """Bring the examples into the chosen order, without those that the filters leave out, and show the first."""
        order, plain = self._order.value, self._true.value == self._predicted.value == _ANY
        if order == "index" and plain:
            self._places = range(self._asked().examples.count)
            self._tell()
            return
        found = self.all()
        if found is None:
            return
        self._name_classes()
        places = np.arange(len(found.chosen))
        for classes, one in ((found.true, self._true), (found.chosen, self._predicted)):
            if one.value != _ANY:
                places = places[classes[places] == one.value]
        if order == "mistakes":
            places = places[(found.true[places] >= 0) & (found.true[places] != found.chosen[places])]
        if order == "confidence":
            places = places[np.argsort(np.nan_to_num(found.confidence[places], nan=np.inf), kind="stable")]
        elif order != "index":
            places = places[np.argsort(-np.nan_to_num(found.loss[places], nan=-np.inf), kind="stable")]
        self._places = places.tolist()
        if self._places and self._places[0] != self.example:
            self.number.value = self._places[0]
        else:
            self.bring(None)

    def _name_classes(self) -> None:
        """List the classes among the filters, once they are known."""
        found = self.all() if len(self._true.options) == 1 else None
        if found is not None and (found.chosen >= 0).any():
            most = int(max(found.chosen.max(), found.true.max()))
            filling, self._filling = self._filling, True
            for one in (self._true, self._predicted):
                before = one.value
                one.options = [("any", _ANY), *((self._asked().name(place), place) for place in range(most + 1))]
                one.value = before
            self._filling = filling

    def _tell(self) -> None:
        places, count = list(self._places), self._asked().examples.count
        if self.example == OWN:
            self._say("Your own example; a number goes back to the data.")
        elif len(places) == count and self._order.value == "index":
            self._say(f"of {count:,}")
        elif not places:
            self._say("No example is like that.")
        else:
            at = f"{places.index(self.example) + 1} of " if self.example in places else ""
            first = f" among the first {MAX_ASKED:,}" if count > MAX_ASKED else ""
            self._say(f"{at}{len(places):,}{first}")

    def _say(self, text: str) -> None:
        self._said.value = f'<span class="pnne-quiet" role="status">{html.escape(text, quote=False)}</span>'

    def _target(self) -> str:
        target = self._asked().examples.cut([self.example]).target if self._asked().examples.many else None
        if not isinstance(target, Tensor) or target.dim() == 0 or len(target) != 1:
            return ""
        if target.numel() > 5:
            return "×".join(map(str, target.shape[1:])) + " numbers"
        if target.is_floating_point():
            return ", ".join(f"{number:.4g}" for number in target.flatten().tolist())
        return ", ".join(self._asked().name(int(one)) for one in target.flatten())

    def _html(self) -> str:
        inputs = "".join(self._inputs())
        target = self._target()
        head = f"<div><strong>Target</strong> {html.escape(target)}</div>" if target else ""
        wrong = (
            bool(target) and self.answer is not None and self.answer.classes and self.answer.likely[0].name != target
        )
        failed = f'<div class="pnne-finding" role="alert">{html.escape(self._refused)}</div>' if self._refused else ""
        table = "" if self.answer is None else answer_html(self.answer, "Answer, wrong" if wrong else "Answer")
        after = "" if self.after is None else answer_html(self.after, "Answer with the changes", self.answer)
        return (
            f'<div class="pnne-example">{inputs}<div>{head}{failed}{table}</div><div role="status">{after}</div></div>'
        )

    def _inputs(self) -> list[str]:
        cut = self._asked().examples.cut([self.example])
        try:
            return [self._drawn(value) for _, value in tensors_in(cut.inputs)]
        except Exception as error:  # noqa: BLE001  a tokenizer's own errors too
            return [refused(error)]

    def _drawn(self, tensor: Tensor) -> str:
        """Return an input as HTML: tokens, a row of a table, a picture, or a heat map."""
        each = (tensor[0] if tensor.dim() > 1 and len(tensor) == 1 else tensor).detach().cpu()
        if not each.is_floating_point() and not each.is_complex() and each.dim() == 1:
            return tokens_html(self._asked().read(each.tolist()[-_TOKENS:]))
        if each.dim() <= 1 and each.numel() <= _TABLE and not each.is_complex():
            numbers = each.reshape(-1).tolist()
            columns = self._asked().examples.columns
            names = columns if len(columns) == len(numbers) else [f"[{place}]" for place in range(len(numbers))]
            cells = "".join(
                f"<tr><th>{html.escape(name)}</th><td>{number:.4g}</td></tr>"
                for name, number in zip(names, numbers, strict=True)
            )
            return f'<div class="pnne-row"><table class="pnne-facts">{cells}</table></div>'
        if each.dim() == 3 and each.shape[0] == 3:
            pixels = coloured(each.float().numpy())
            width = min(160, 10 * pixels.shape[1])
            return (
                f'<figure class="pnne-picture"><img alt="Example {self.example}" src="{data_url(pixels)}"'
                f' width="{width}"></figure>'
            )
        if each.dim() == 3 and each.shape[0] == 1:
            each = each[0]
        tiles = tiles_of(each[None] if each.dim() <= 2 else each, count=16)
        return picture(tiles, f"Example {self.example}", signed=False, width=160)


def answer_html(answer: Answer, words: str, before: Answer | None = None) -> str:
    """Return the likeliest answers as a table with bars; with those `before`, the change of each."""
    rows = ""
    for one in answer.likely:
        number = f"{one.share:.1%}" if answer.classes else f"{one.share:.4g}"
        bar = f'<span class="pnne-share" style="width:{90 * one.share:.0f}px"></span>' if answer.classes else ""
        moved = "" if before is None else f"<td>{_moved(before, one)}</td>"
        rows += f'<tr><th>{html.escape(one.name)}</th><td>{number}</td>{moved}<td class="pnne-bar">{bar}</td></tr>'
    return f'<table class="pnne-facts pnne-answer"><caption>{html.escape(words)}</caption><tbody>{rows}</tbody></table>'


def _moved(before: Answer, one: Likely) -> str:
    known = next((each.share for each in before.likely if each.place == one.place), None)
    if known is None:
        return ""
    return f"{100 * (one.share - known):+.1f}" if before.classes else f"{one.share - known:+.3g}"
