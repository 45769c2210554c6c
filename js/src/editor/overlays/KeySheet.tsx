import { useEffect, useRef } from "react";
import { useEditor, useView } from "../commands/context";
import { COMMANDS, keyText } from "../commands/keys";

/** What a pointer does, for which there is no key of its own. */
const POINTER = [
  ["Double click on the canvas", "Add a node there"],
  ["Drag from a port to a port", "Connect; a fed port is fed from here instead"],
  ["Drag from a port to empty space", "Add what fits and connect it"],
  ["Drop a node on an edge", "Put it into the edge; what follows makes room"],
  ["Alt + drag a node", "Drop a copy"],
  ["Alt + drag on the canvas", "Cut the edges that the stroke crosses"],
  ["Shift + drag on the canvas", "Select what the box touches"],
  ["Double click on a name", "Rename"],
  ["Right click, or a long press", "Open the menu"],
  ["Drop a .pnne.json file", "Open it"],
] as const;

/** All gestures, on one sheet over the canvas. */
export function KeySheet() {
  return useView((view) => view.sheet) ? <Sheet /> : null;
}

function Sheet() {
  const editor = useEditor();
  const dialog = useRef<HTMLDivElement>(null);
  useEffect(() => dialog.current?.focus({ preventScroll: true }), []);
  const close = () => editor.leave({ sheet: false });
  return (
    <div
      className="pnne-sheet nowheel nopan"
      ref={dialog}
      role="dialog"
      aria-label="All keys and gestures"
      tabIndex={-1}
      onKeyDown={(event) => {
        if (event.key !== "Escape" && event.key !== "?") return;
        event.preventDefault();
        event.stopPropagation();
        close();
      }}
    >
      <header>
        <h2>Keys and gestures</h2>
        <button type="button" aria-label="Close the list" onClick={close}>
          ×
        </button>
      </header>
      <div className="pnne-sheet-columns">
        {Object.entries(COMMANDS).map(([group, commands]) => (
          <section key={group} aria-label={group}>
            <h3>{group}</h3>
            <dl>
              {commands.map(({ keys, what }) => (
                <div key={what}>
                  <dt>{what.replace("…", "")}</dt>
                  <dd>{keys.map((key, place) => [place > 0 && " or ", <kbd key={key}>{keyText(key)}</kbd>])}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
        <section aria-label="Pointer">
          <h3>Pointer</h3>
          <dl>
            {POINTER.map(([gesture, what]) => (
              <div key={gesture}>
                <dt>{what}</dt>
                <dd>{gesture}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
    </div>
  );
}
