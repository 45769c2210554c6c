import { useStore } from "@xyflow/react";
import type { MouseEvent } from "react";
import { group } from "../commands/blocks";
import { useEditor, useScene, useSession, useSettled, useView } from "../commands/context";
import type { Editor } from "../commands/editor";
import { openFile, saveFile } from "../commands/files";
import { toggleFolded, toggleValues } from "../commands/folding";
import { addFrame } from "../commands/framing";
import { openFind } from "../commands/gestures";
import { Action } from "../fields/Action";
import { pictureOf, savePicture } from "../scene/picture";
import { NOTHING } from "../scene/view";
import { SharedNotice } from "./SharedNotice";

/** What each button is called, says and shows. */
const LOOKS = {
  add: { name: "Add node", hint: "Add node (/)", icon: "M8 3v10M3 8h10" },
  undo: { name: "Undo", icon: "M6 3L2.5 6.5L6 10M2.5 6.5h7a4 4 0 0 1 0 7H7" },
  redo: { name: "Redo", icon: "M10 3l3.5 3.5L10 10M13.5 6.5h-7a4 4 0 0 0 0 7H9" },
  history: {
    name: "History",
    hint: "Show what was done, to go back to (Z)",
    icon: "M3 8a5 5 0 1 0 1.5-3.6M3 2.5v2.5h2.5M8 5v3l2 1.5",
  },
  trash: {
    name: "Delete",
    hint: "Delete (Del)",
    icon: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 9h5.8l.6-9M6.8 7v4M9.2 7v4",
  },
  group: {
    name: "Group",
    hint: "Group the selected nodes into a block (Ctrl+G)",
    icon: "M2.5 5V2.5H5M11 2.5h2.5V5M13.5 11v2.5H11M5 13.5H2.5V11M5.5 5.5h5v5h-5z",
  },
  frame: {
    name: "Frame",
    hint: "Put a frame around the selected nodes, or make a note (Shift+G)",
    icon: "M2.5 3h11v10h-11zM2.5 6h11",
  },
  arrange: {
    name: "Arrange",
    hint: "Arrange the graph, or the selected nodes, to fit (A); Shift + click: from left to right (Shift+R)",
    icon: "M2 6.5h4v3H2zM10 2.5h4v3h-4zM10 10.5h4v3h-4zM6 8h2M8 4v8M8 4h2M8 12h2",
  },
  fit: { name: "Fit view", hint: "Fit view (F)", icon: "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10" },
  code: { name: "Code", hint: "Show the PyTorch source", icon: "M5.5 4L2 8l3.5 4M10.5 4L14 8l-3.5 4" },
  panel: { name: "Properties", hint: "Show or hide the properties", icon: "M2.5 3h11v10h-11zM10 3v10" },
  snap: {
    name: "Snap to grid",
    icon: "M3 3h.01M8 3h.01M13 3h.01M3 8h.01M8 8h.01M13 8h.01M3 13h.01M8 13h.01M13 13h.01",
  },
  fold: {
    name: "Fold repeats",
    hint: "Fold what repeats in a row into one picture, or unfold it (X)",
    icon: "M3 2.5h10M3 13.5h10M8 4v3M6.3 5.6L8 7.2l1.7-1.6M8 12V9M6.3 10.4L8 8.8l1.7 1.6",
  },
  values: {
    name: "Values",
    hint: "Draw sizes, constants and single steps as cards, or write them on the cards that use them (Shift+X)",
    icon: "M3 4.5h10M3 8h6M3 11.5h8",
  },
  find: {
    name: "Find node",
    hint: "Find a node (Ctrl+F)",
    icon: "M7 2.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9M10.4 10.4L14 14",
  },
  picture: { name: "Save as PNG", hint: "Save as PNG (Shift: as SVG)", icon: "M8 2.5v7M5 7l3 3l3-3M2.5 11v2.5h11V11" },
  export: {
    name: "Export",
    hint: "Export the model to ONNX and other formats, and prove the file (Shift+E)",
    icon: "M8 10V2.5M5 5.5l3-3l3 3M3 8.5H2.5v5h11v-5H13",
  },
  open: { name: "Open graph file", hint: "Open a graph file (Ctrl+O)", icon: "M2.5 12.5v-9h4l1.5 2h5.5v7zM2.5 8h11" },
  save: {
    name: "Save graph file",
    hint: "Save as a graph file (Ctrl+Shift+S)",
    icon: "M3 2.5h8l2.5 2.5v8.5h-10.5zM5 2.5v3.5h5v-3.5M5 13.5v-4.5h6v4.5",
  },
  keys: {
    name: "Keys",
    hint: "All keys and gestures (?)",
    icon: "M1.5 4.5h13v7h-13zM4 7h.01M6.5 7h.01M9 7h.01M11.5 7h.01M5 9.5h6",
  },
  full: { name: "Full screen", icon: "M9.5 6.5L13.5 2.5M10 2.5h3.5V6M6.5 9.5L2.5 13.5M6 13.5H2.5V10" },
};

export function Toolbar({ onAdd, readOnly }: { onAdd: () => void; readOnly: boolean }) {
  const editor = useEditor();
  const history = useSession((state) => state.sync?.history);
  const shownHistory = useView((view) => view.history);
  const selected = useView((view) => view.nodes.size);
  const selectedEdges = useView((view) => view.edges.size);
  const frames = useView((view) => view.frames.size);
  const source = useView((view) => view.source);
  const exporting = useView((view) => view.exporting);
  const properties = useView((view) => view.properties);
  const snap = useView((view) => view.snap);
  const save = (event: MouseEvent) => {
    const scene = editor.scene();
    const { root } = editor;
    if (!scene || !root) return;
    const picture = pictureOf(scene, editor.session.store.get(), root);
    savePicture(picture, scene.document.name, event.shiftKey ? "svg" : "png").catch((error: Error) =>
      editor.session.notify(error.message),
    );
  };
  return (
    <div className="pnne-toolbar" role="toolbar" aria-label="Graph editor">
      <Action {...LOOKS.add} onClick={onAdd} disabled={readOnly}>
        <span>Add node</span>
      </Action>
      <i className="pnne-divider" />
      <Action
        {...LOOKS.undo}
        hint={`Undo${history?.undo ? ` ${history.undo}` : ""} (Ctrl+Z)`}
        disabled={readOnly || !history?.undo}
        onClick={() => editor.session.undo()}
      />
      <Action
        {...LOOKS.redo}
        hint={`Redo${history?.redo ? ` ${history.redo}` : ""} (Ctrl+Shift+Z)`}
        disabled={readOnly || !history?.redo}
        onClick={() => editor.session.redo()}
      />
      <Action
        {...LOOKS.history}
        pressed={shownHistory}
        disabled={readOnly}
        onClick={() => editor.patch({ history: !shownHistory })}
      />
      <i className="pnne-divider" />
      <Action
        {...LOOKS.trash}
        disabled={readOnly || selected + selectedEdges + frames === 0}
        onClick={() => editor.deleteSelection()}
      />
      <Action {...LOOKS.group} disabled={readOnly || selected + frames === 0} onClick={() => group(editor)} />
      <Action {...LOOKS.frame} disabled={readOnly} onClick={() => addFrame(editor)} />
      <i className="pnne-divider" />
      <Action
        {...LOOKS.arrange}
        onClick={(event) => editor.arrange(event.shiftKey ? "right" : undefined)}
        disabled={readOnly}
      />
      <FoldAction />
      <ValuesAction />
      <Action {...LOOKS.fit} onClick={() => editor.viewport?.fit()} />
      <Zoom />
      <Action {...LOOKS.find} onClick={() => openFind(editor)} />
      <Action {...LOOKS.snap} pressed={snap} disabled={readOnly} onClick={() => editor.patch({ snap: !snap })} />
      {readOnly && (
        <span
          className="pnne-read-only"
          title="This editor only shows the graph: editor.read_only = False allows changes"
        >
          Read-only
        </span>
      )}
      <Breadcrumbs />
      <SharedNotice />
      <span className="pnne-spring" />
      <Action {...LOOKS.code} pressed={source} onClick={() => editor.showPanel("source", !source)}>
        <span>Code</span>
      </Action>
      <Action {...LOOKS.export} pressed={exporting} onClick={() => editor.showPanel("exporting", !exporting)}>
        <span>Export</span>
      </Action>
      <Action {...LOOKS.open} onClick={() => openFile(editor)} disabled={readOnly} />
      <Action {...LOOKS.save} onClick={() => saveFile(editor)} />
      <Action {...LOOKS.picture} onClick={save} />
      <Action {...LOOKS.keys} onClick={() => editor.patch({ sheet: true })} />
      <Action {...LOOKS.full} onClick={() => toggleFullScreen(editor)} />
      <Action {...LOOKS.panel} pressed={properties} onClick={() => editor.showPanel("properties", !properties)} />
    </div>
  );
}

/** How large the graph is shown; a click shows it at its own size. */
function Zoom() {
  const editor = useEditor();
  const percent = useStore((state) => Math.round(100 * state.transform[2]));
  return (
    <button
      type="button"
      className="pnne-action pnne-zoom"
      aria-label={`Zoom ${percent} %`}
      title="Zoom to 100 % (0)"
      onClick={() => editor.viewport?.zoomTo(1)}
    >
      {percent} %
    </button>
  );
}

/** Shown where there is something to fold. */
function FoldAction() {
  const editor = useEditor();
  const scene = useScene();
  const runs = useSettled(scene)?.runs() ?? [];
  if (!scene || runs.length === 0) return null;
  return (
    <Action
      {...LOOKS.fold}
      pressed={runs.every(([[head = ""] = []]) => scene.folds.runs.has(head))}
      onClick={() => toggleFolded(editor, NOTHING)}
    />
  );
}

/** Shown where there are values that can be written on the cards that use them. */
function ValuesAction() {
  const editor = useEditor();
  const scene = useScene();
  const outlined = useView((view) => view.outlined);
  if (!scene?.absorbs()) return null;
  return <Action {...LOOKS.values} pressed={outlined === "all"} onClick={() => toggleValues(editor)} />;
}

function toggleFullScreen({ root }: Editor): void {
  if (document.fullscreenElement) void document.exitFullscreen();
  else void root?.requestFullscreen();
}

function Breadcrumbs() {
  const editor = useEditor();
  const scene = useScene();
  const path = useView((view) => view.path);
  if (path.length === 0) return null;
  return (
    <nav className="pnne-breadcrumbs" aria-label="Nested graphs">
      <button type="button" onClick={() => editor.enter([])}>
        {scene?.document.name || "graph"}
      </button>
      {path.map((name, depth) => {
        const here = path.slice(0, depth + 1);
        return (
          <button type="button" key={here.join(".")} onClick={() => editor.enter(here)}>
            {name}
          </button>
        );
      })}
    </nav>
  );
}
