import { createContext, useCallback, useContext, useEffect, useState, useSyncExternalStore } from "react";
import type { ShownScene } from "../scene/scene";
import type { ViewState } from "../scene/view";
import type { SessionState } from "../session/session";
import type { Store } from "../session/store";
import type { Editor } from "./editor";

export const EditorContext = createContext<Editor | null>(null);

export function useEditor(): Editor {
  const editor = useContext(EditorContext);
  if (!editor) throw new Error("The component stands outside of an editor.");
  return editor;
}

/** A part of a store; `select` must return the same object for the same state. */
function useStoreValue<S, T>(store: Store<S>, select: (state: S) => T): T {
  return useSyncExternalStore(store.subscribe, () => select(store.get()));
}

export function useView<T>(select: (state: ViewState) => T): T {
  return useStoreValue(useEditor().view, select);
}

/** Whether a part of the view's state speaks of the node with a full path. */
export function useIsOn(path: string, select: (state: ViewState) => string | null): boolean {
  return useView((view) => {
    const name = select(view);
    return name !== null && [...view.path, name].join(".") === path;
  });
}

export function useSession<T>(select: (state: SessionState) => T): T {
  return useStoreValue(useEditor().session.store, select);
}

/** The graph that commands act on, or null until a snapshot has come. */
export function useScene(): ShownScene | null {
  return useOfBoth((editor) => editor.scene());
}

/** The graph that is drawn as a whole, with those in its open blocks. */
export function useDrawn(): ShownScene | null {
  return useOfBoth((editor) => editor.drawn());
}

/** What depends on the session and the view. */
function useOfBoth<T>(select: (editor: Editor) => T): T {
  const editor = useEditor();
  const subscribe = useCallback(
    (listener: () => void) => {
      const ends = [editor.session.store.subscribe(listener), editor.view.subscribe(listener)];
      return () => {
        for (const end of ends) end();
      };
    },
    [editor],
  );
  return useSyncExternalStore(subscribe, () => select(editor));
}

/** Larger graphs compute what is not urgent in a pause: so many milliseconds after the last gesture. */
const MANY_NODES = 2_000;
const PAUSE = 1_000;

/** Whether a graph is so large that things wait for a pause. */
export function isLarge(scene: ShownScene | null): boolean {
  return scene !== null && scene.graph.nodes.size > MANY_NODES;
}

/** The given graph; a large one as of the last pause, so that the next gesture does not wait for the results. */
export function useSettled(scene: ShownScene | null): ShownScene | null {
  const [settled, setSettled] = useState(scene);
  const isSame = settled !== null && settled.prefix === scene?.prefix && settled.graphId === scene.graphId;
  const waits = isSame && settled !== scene && isLarge(scene);
  useEffect(() => {
    if (!waits) return;
    let timer: ReturnType<typeof setTimeout>;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => setSettled(scene), PAUSE);
    };
    wait();
    const ends = new AbortController();
    for (const gesture of ["pointerdown", "keydown", "wheel"] as const)
      document.addEventListener(gesture, wait, { capture: true, passive: true, signal: ends.signal });
    return () => {
      ends.abort();
      clearTimeout(timer);
    };
  }, [scene, waits]);
  if (!waits && settled !== scene) setSettled(scene);
  return waits ? settled : scene;
}
