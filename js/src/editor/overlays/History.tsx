import { type KeyboardEvent, useEffect, useRef, useState } from "react";
import type { Steps } from "../../protocol";
import { useEditor, useSession, useView } from "../commands/context";

/** What was done to the graph, the latest at the end; a click goes to where it stood then. */
export function History() {
  return useView((view) => view.history) ? <List /> : null;
}

function List() {
  const editor = useEditor();
  const version = useSession((state) => state.sync?.version);
  const pending = useSession((state) => state.sync?.pending.length);
  const [steps, setSteps] = useState<Steps | null>(null);
  const box = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: asked for anew after each change
  useEffect(() => {
    let current = true;
    if (pending) return;
    editor.session.steps().then(
      (found) => current && setSteps(found),
      (error: Error) => current && editor.session.notify(error.message),
    );
    return () => {
      current = false;
    };
  }, [editor, version, pending]);
  const isThere = steps !== null;
  useEffect(() => {
    if (!isThere) return;
    const here = box.current?.querySelector<HTMLElement>("[aria-current]");
    here?.focus({ preventScroll: true });
    here?.scrollIntoView({ block: "nearest" });
  }, [isThere]);
  const close = () => editor.leave({ history: false });
  const { done = [], undone = [], earlier = 0 } = steps ?? {};
  const labels = [earlier > 0 ? `${earlier} earlier steps` : "As it was opened", ...done, ...undone];
  const goTo = (place: number) => {
    for (let left = done.length - place; left > 0; left -= 1) editor.session.undo();
    for (let left = place - done.length; left > 0; left -= 1) editor.session.redo();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const all = [...(box.current?.querySelectorAll<HTMLElement>("li button") ?? [])];
    const place = all.indexOf(document.activeElement as HTMLElement);
    const next = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape") close();
    else if (next !== undefined) all[next]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      className="pnne-menu pnne-history nowheel nopan nodrag"
      ref={box}
      role="dialog"
      aria-label="History"
      tabIndex={-1}
      onKeyDown={onKeyDown}
    >
      <header>
        <h2>History</h2>
        <button type="button" aria-label="Close the history" onClick={close}>
          ×
        </button>
      </header>
      <ol aria-busy={!isThere}>
        {isThere &&
          labels.map((label, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a step is its place in the list
            <li key={place} className={place > done.length ? "pnne-undone" : ""}>
              <button
                type="button"
                aria-current={place === done.length ? "step" : undefined}
                onClick={() => goTo(place)}
              >
                {label}
              </button>
            </li>
          ))}
      </ol>
    </div>
  );
}
