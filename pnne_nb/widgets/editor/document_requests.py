"""Answers a page's requests about the document: changes, library blocks, the list of undo steps, the source."""

from __future__ import annotations

from typing import Final, assert_never

from pnne_nb.compiler.pipeline.located_source import located_source
from pnne_nb.graph.block_library import blocks
from pnne_nb.graph.document import NodeGraph
from pnne_nb.protocol import messages
from pnne_nb.protocol.codec import view_of, with_floats

ChangeRequest = messages.Edit | messages.Undo | messages.Redo | messages.Arrange | messages.Group | messages.Ungroup
BlocksRequest = messages.Publish | messages.Unpublish | messages.LoadBlocks

MOST_STEPS: Final = 200
"""Most steps to undo, and most steps to redo, in the list."""


def change(graph: NodeGraph, request: ChangeRequest) -> bool:
    """Change a document.

    Returns:
        Whether anything was committed; arranging an arranged graph commits nothing.

    Raises:
        GraphError: If the change is refused; nothing has changed.
    """
    match request:
        case messages.Edit(base=base, ops=ops, label=label):
            graph.apply(with_floats(graph, ops), label=label, base=base)
        case messages.Undo():
            graph.undo()
        case messages.Redo():
            graph.redo()
        case messages.Arrange(graph=which, direction=direction, nodes=nodes, values=values, first=first):
            view = view_of(request)
            done = graph.arrange(which, direction=direction, nodes=nodes, values=values, undoable=not first, view=view)
            return bool(done.ops)
        case messages.Group(nodes=nodes, name=name, graph=which):
            graph.group(nodes, name, graph=which)
        case messages.Ungroup(node=node, graph=which):
            graph.ungroup(node, graph=which)
        case _:
            assert_never(request)
    return True


def change_blocks(graph: NodeGraph, request: BlocksRequest) -> None:
    """Change the library of blocks.

    Raises:
        GraphError: If there is no such block, or it cannot be published.
        GraphFileError: If a file of blocks is damaged.
    """
    match request:
        case messages.Publish(node=node, name=name):
            blocks.publish(graph, node, name)
        case messages.Unpublish(name=name):
            blocks.remove(name)
        case messages.LoadBlocks(text=text):
            blocks.load_text(text)
        case _:
            assert_never(request)


def steps(graph: NodeGraph, id: int, client: str) -> messages.Steps:
    """Return what can be undone and redone, the last `MOST_STEPS` of each, as the answer to a request."""
    done, undone = graph.step_labels()
    earlier = max(0, len(done) - MOST_STEPS)
    return messages.Steps(id, client, done[earlier:], undone[:MOST_STEPS], earlier)


def source(graph: NodeGraph, id: int, client: str) -> messages.Source:
    """Return the source of the document, with the lines of each class, as the answer to a request."""
    shown = located_source(graph)
    classes = {name: messages.SourceLines(each.lines, each.members) for name, each in shown.classes.items()}
    return messages.Source(id, client, shown.text, classes, shown.notice)
