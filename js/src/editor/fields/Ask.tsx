import { useLayoutEffect, useRef, useState } from "react";
import { useEditor, useSession } from "../commands/context";

/** The tabs of the right panel, where Python shows a widget beside the selected node. */
export function AskTabs() {
  const { model } = useEditor().session;
  const asking = useSession((state) => state.asking);
  const choose = (ask: boolean) => {
    model.set("asking", ask);
    model.save_changes();
  };
  return (
    <div className="pnne-ask-tabs" role="tablist" aria-label="Beside the graph">
      {[true, false].map((ask) => (
        <button type="button" role="tab" key={`${ask}`} aria-selected={ask === asking} onClick={() => choose(ask)}>
          {ask ? "Ask" : "Properties"}
        </button>
      ))}
    </div>
  );
}

/** A widget that is shown elsewhere too, by its id: what an explorer has beside its map. */
export function Ask({ look }: { look: string }) {
  const { model } = useEditor().session;
  const place = useRef<HTMLDivElement>(null);
  const [failed, fail] = useState(false);
  useLayoutEffect(() => {
    const ends = new AbortController();
    // Keys inside are the widget's own: Delete would remove the node.
    place.current?.addEventListener("keydown", (event) => event.stopPropagation(), { signal: ends.signal });
    const show = async () => {
      const manager = model.widget_manager;
      if (!manager?.create_view) throw new Error("This page has no views of other widgets.");
      const view = await manager.create_view(await manager.get_model(look));
      if (ends.signal.aborted || !place.current) return view.remove();
      ends.signal.addEventListener("abort", () => {
        // A widget must be in the page to be taken out of it, and a cell's output may be gone by now.
        if (!view.el.isConnected) document.body.append(view.el);
        view.remove();
      });
      const widget = view.luminoWidget;
      // A widget lays itself out once it is told that it is in the page.
      if (widget) widget.constructor.attach(widget, place.current);
      else place.current.append(view.el);
    };
    show().catch(() => fail(true));
    return () => ends.abort();
  }, [model, look]);
  return (
    <div className="pnne-ask" ref={place}>
      {failed && <p className="pnne-hint">This page shows no widget in another: display editor.explorer in a cell.</p>}
    </div>
  );
}
