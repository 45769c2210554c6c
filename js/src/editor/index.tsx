import { createRoot } from "react-dom/client";
import "@xyflow/react/dist/style.css";
import "./styles/editor.css";
import { App } from "./App";
import { Editor } from "./commands/editor";
import { shareFolds, shareSelection } from "./commands/sharing";
import { type Context, frontEnds, keyOf, type Widget } from "./host/frontEnds";
import { followTheme } from "./host/theme";
import type { Model } from "./session/model";
import { Session } from "./session/session";

const DEFAULT_HEIGHT = 560;

/** anywidget calls this once per model, so that all views of the model in this page share one session. */
export default function editorWidget(): Widget {
  let session: Session | null = null;
  return {
    initialize({ model }: Pick<Context, "model">) {
      frontEnds().set(keyOf(model), Promise.resolve(editorWidget));
      session = new Session(model);
      return () => {
        session?.dispose();
        session = null;
      };
    },
    render({ model, el }: Context) {
      const shared = session;
      if (!shared) throw new Error("The editor's model was not initialised.");
      const editor = new Editor(shared);
      const ends = new AbortController();
      const root = makeRoot(model, el, ends.signal);
      editor.root = root;
      if (model.get("panel") === "export") editor.showPanel("exporting", true);
      keepKeysHere(root, ends.signal);
      activateOnClick(root, editor, ends.signal);
      shareSelection(model, editor, ends.signal);
      shareFolds(model, editor, ends.signal);
      followTheme(root, model, ends.signal);
      countViews(model, 1);
      // What fails to draw is shown in its place (`Failure`).
      const react = createRoot(root, { onCaughtError: (error) => console.debug(error) });
      react.render(<App editor={editor} root={root} />);
      return () => {
        ends.abort();
        countViews(model, -1);
        editor.dispose();
        react.unmount();
        root.remove();
      };
    },
  };
}

/** Sends the number of open views to Python, which closes a replaced editor without views. */
function countViews(model: Model, change: number): void {
  model.set("views", Math.max(0, Number(model.get("views") ?? 0) + change));
  model.save_changes();
}

function makeRoot(model: Model, el: HTMLElement, signal: AbortSignal): HTMLElement {
  const root = document.createElement("div");
  root.className = "pnne-editor";
  root.dataset.testid = "pnne-editor";
  const resize = () => {
    root.style.height = `${Number(model.get("height")) || DEFAULT_HEIGHT}px`;
  };
  resize();
  model.on("change:height", resize);
  signal.addEventListener("abort", () => model.off("change:height", resize));
  root.tabIndex = -1;
  el.append(root);
  return root;
}

/** Jupyter looks for the attribute on the focused element itself, so each one gets it as the focus arrives. */
function keepKeysHere(root: HTMLElement, signal: AbortSignal): void {
  const mark = (element: Element) => element.setAttribute("data-lm-suppress-shortcuts", "true");
  mark(root);
  root.setAttribute("data-jp-suppress-context-menu", "true");
  root.addEventListener("focusin", (event) => mark(event.target as Element), { signal });
  const onMouseDown = (event: MouseEvent) => {
    if (!event.shiftKey) return;
    // Shift + click would extend Jupyter's selection of cells, and Shift + drag the page's selection of text.
    event.stopPropagation();
    const { target } = event;
    if (target instanceof Element && target.closest(".react-flow") && !target.closest("input, select, textarea"))
      event.preventDefault();
  };
  root.addEventListener("mousedown", onMouseDown, { signal });
  // When the focused element goes away, the next key must not go to the notebook.
  root.addEventListener(
    "focusout",
    (event) => {
      const left = event.target as Element;
      if (event.relatedTarget === null)
        queueMicrotask(() => !left.isConnected && root.isConnected && root.focus({ preventScroll: true }));
    },
    { signal },
  );
}

/** The wheel belongs to the page until the editor was clicked, and again after a click elsewhere. */
function activateOnClick(root: HTMLElement, editor: Editor, signal: AbortSignal): void {
  const onPointerDown = (event: Event) => editor.patch({ active: event.composedPath().includes(root), keys: "here" });
  document.addEventListener("pointerdown", onPointerDown, { signal, capture: true });
  root.addEventListener("focusin", () => editor.view.get().keys === "left" && editor.patch({ keys: "here" }), {
    signal,
  });
}
