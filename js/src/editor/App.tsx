import { ReactFlowProvider } from "@xyflow/react";
import { useCallback, useEffect, useLayoutEffect, useRef } from "react";
import { flushSync } from "react-dom";
import { Canvas } from "./canvas/Canvas";
import { selectBlock } from "./commands/blocks";
import { useCanvasEvents } from "./commands/canvasEvents";
import { EditorContext, useEditor, useScene, useSession, useView } from "./commands/context";
import type { Editor } from "./commands/editor";
import { onKeyDown } from "./commands/keys";
import { pressedOn } from "./commands/opened";
import { ExportDialog } from "./exporting/ExportDialog";
import { ContextMenu } from "./overlays/ContextMenu";
import { History } from "./overlays/History";
import { KeySheet } from "./overlays/KeySheet";
import { KeysNote } from "./overlays/KeysNote";
import { SeenTensor } from "./overlays/SeenTensor";
import { Starts } from "./overlays/Starts";
import { Stroke } from "./overlays/Stroke";
import { BoxNote } from "./panels/Box";
import { Failure } from "./panels/Failure";
import { Legend } from "./panels/Legend";
import { Palette } from "./panels/Palette";
import { Properties } from "./panels/Properties";
import { QuickSearch } from "./panels/Quick";
import { SourcePanel } from "./panels/SourcePanel";
import { StatusLine } from "./panels/StatusLine";
import { Toasts } from "./panels/Toasts";
import { Toolbar } from "./panels/Toolbar";

export function App({ editor, root }: { editor: Editor; root: HTMLElement }) {
  return (
    <EditorContext value={editor}>
      <Failure>
        <ReactFlowProvider>
          <Layout editor={editor} root={root} />
        </ReactFlowProvider>
      </Failure>
    </EditorContext>
  );
}

function Layout({ editor, root }: { editor: Editor; root: HTMLElement }) {
  const version = useSession((state) => state.sync?.version);
  const readOnly = useSession((state) => state.readOnly);
  const scene = useScene();
  const palette = useView((view) => view.palette);
  const properties = useView((view) => view.properties);
  const source = useView((view) => view.source);
  const exporting = useView((view) => view.exporting);
  const active = useView((view) => view.active);
  const cutting = useView((view) => view.stroke !== null);
  const searchBox = useRef<HTMLInputElement>(null);
  const canvas = useRef<HTMLElement>(null);

  const openSearch = useCallback(() => {
    // At once: who goes on typing means the search, also before the next frame.
    flushSync(() => editor.showPanel("palette", true));
    searchBox.current?.select();
  }, [editor]);
  useWidth(editor, root);
  useEffect(() => {
    root.dataset.version = version === undefined ? "" : String(version);
  }, [root, version]);
  useEffect(() => {
    root.classList.toggle("pnne-active", active);
  }, [root, active]);
  useEffect(() => {
    const ends = new AbortController();
    root.addEventListener("keydown", (event) => onKeyDown(event, editor, openSearch), { signal: ends.signal });
    return () => ends.abort();
  }, [editor, root, openSearch]);
  useCanvasEvents(editor, canvas);
  const isEmpty = scene !== null && scene.graph.nodes.size === 0;
  return (
    <>
      <Toolbar onAdd={openSearch} readOnly={readOnly} />
      <div className="pnne-body">
        {palette && !readOnly && <Palette searchBox={searchBox} />}
        <section
          className={`pnne-canvas${cutting ? " pnne-cutting" : ""}`}
          ref={canvas}
          aria-label="Graph"
          // biome-ignore lint/a11y/noNoninteractiveTabindex: the canvas takes the keyboard for the whole graph
          tabIndex={0}
          onPointerMove={(event) => {
            editor.pointer = [event.clientX, event.clientY];
          }}
          onPointerLeave={() => {
            editor.pointer = null;
          }}
          onBlur={() => {
            editor.byPointer = false;
          }}
          onPointerDownCapture={(event) => {
            pressedOn(editor, event.target as Element, [event.clientX, event.clientY]);
            if (editor.view.get().narrow && (event.target as Element).closest(".react-flow")) {
              editor.patch({ palette: false, properties: false });
            }
            if (!(event.target as Element).closest(KEEP_FOCUS)) {
              canvas.current?.focus({ preventScroll: true });
              editor.byPointer = true;
            }
          }}
        >
          <Canvas />
          {isEmpty && (
            <div className="pnne-empty">
              <p>Empty graph</p>
              <p>Press Space or double-click: each node goes on from the last. Or begin with what there is:</p>
              {!readOnly && scene.graphId === "" && <Starts />}
            </div>
          )}
          {scene && <BoxNote scene={scene} />}
          {!scene && (
            <div className="pnne-empty">
              <p>Loading the graph…</p>
            </div>
          )}
          <Legend />
          <KeysNote />
          <Toasts />
          <Stroke />
          <SeenTensor />
          <History />
          <QuickSearch />
          <ContextMenu focusSearch={openSearch} />
          <KeySheet />
        </section>
        {source && <SourcePanel />}
        {exporting && <ExportDialog readOnly={readOnly} />}
        {properties && <Properties readOnly={readOnly} />}
      </div>
      <StatusLine />
      <Announcer />
    </>
  );
}

/** What a press does not take the focus from: a search that loses it closes, before the click has chosen anything. */
const KEEP_FOCUS = "input, button, select, a, .pnne-inline, .pnne-menu, .pnne-sheet, .pnne-quick";
/** Below this width of the editor, in pixels, panels leave too little of the graph beside them. */
const NARROW = 720;
/** Below this one, the source, the palette and the properties leave the graph less than 300. */
const SNUG = 1300;

/** Keeps the panels fit for the width: closed where they would cover the graph, open beside it otherwise. */
function useWidth(editor: Editor, root: HTMLElement): void {
  useLayoutEffect(() => {
    const adapt = () => {
      const width = root.clientWidth;
      // A cell that is scrolled away may have no size.
      const before = editor.view.get();
      const narrow = width < NARROW;
      const snug = !narrow && width < SNUG;
      if (width === 0 || (narrow === before.narrow && snug === before.snug)) return;
      root.classList.toggle("pnne-narrow", narrow);
      const properties = narrow === before.narrow ? before.properties : !narrow;
      editor.patch({ narrow, snug, palette: !narrow && !(snug && (before.source || before.exporting)), properties });
    };
    adapt();
    const observer = new ResizeObserver(adapt);
    observer.observe(root);
    return () => observer.disconnect();
  }, [editor, root]);
}

/** Tells screen readers what the keyboard and the edits do. */
function Announcer() {
  const editor = useEditor();
  const said = useView((view) => view.said);
  const done = useSession((state) => state.done);
  useEffect(() => {
    if (!done) return;
    editor.patch({ said: done.label });
    selectBlock(editor, done.ops);
  }, [editor, done]);
  return (
    <p className="pnne-said" aria-live="polite">
      {said}
    </p>
  );
}
