import { type KeyboardEvent, useLayoutEffect, useRef } from "react";
import { useEditor, useView } from "../commands/context";
import { BY_KEY, keyText } from "../commands/keys";
import { menuFor } from "../commands/menu";
import type { OverCanvas } from "../scene/view";

const WIDTH = 300;
const ITEMS = "[role^=menuitem]";

/** The commands for the selection, with their keys. */
export function ContextMenu({ focusSearch }: { focusSearch: () => void }) {
  const menu = useView((view) => view.menu);
  return menu ? <Menu key={`${menu.left} ${menu.top}`} menu={menu} focusSearch={focusSearch} /> : null;
}

function Menu({ menu, focusSearch }: { menu: OverCanvas; focusSearch: () => void }) {
  const editor = useEditor();
  const box = useRef<HTMLDivElement>(null);
  const items = () => [...(box.current?.querySelectorAll<HTMLElement>(ITEMS) ?? [])];
  useLayoutEffect(() => {
    const { current } = box;
    const canvas = current?.parentElement;
    if (!current || !canvas) return;
    const inside = (wanted: number, room: number) => `${Math.max(4, Math.min(wanted, room - 4))}px`;
    current.style.left = inside(menu.left, canvas.clientWidth - current.offsetWidth);
    current.style.top = inside(menu.top, canvas.clientHeight - current.offsetHeight);
    current.querySelector<HTMLElement>(ITEMS)?.focus({ preventScroll: true });
  }, [menu]);
  const close = () => editor.leave({ menu: null });
  const take = (key: string) => {
    close();
    BY_KEY.get(key)?.run(editor, focusSearch);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const all = items();
    const place = all.indexOf(document.activeElement as HTMLElement);
    const steps: Record<string, number> = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: -1 };
    const next = steps[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (next !== undefined) all.at(next % all.length)?.focus();
    else if (event.key === "Enter" || event.key === " ") (document.activeElement as HTMLElement).click();
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      className="pnne-menu nowheel nopan nodrag"
      ref={box}
      role="menu"
      aria-label="Commands"
      tabIndex={-1}
      style={{ width: WIDTH }}
      onKeyDown={onKeyDown}
      onBlur={(event) => {
        if (!event.currentTarget.contains(event.relatedTarget)) editor.patch({ menu: null });
      }}
    >
      {menuFor(editor).map((keys, part) => (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms
        <div className="pnne-menu-part" role="group" key={keys[0]} aria-label={`Part ${part + 1}`}>
          {keys.map((key) => {
            const command = BY_KEY.get(key);
            const isOn = command?.isOn?.(editor);
            return (
              <button
                type="button"
                {...(isOn === undefined ? { role: "menuitem" } : { role: "menuitemcheckbox", "aria-checked": isOn })}
                tabIndex={-1}
                key={key}
                onClick={() => take(key)}
              >
                <span>
                  {command?.does?.(editor) ?? command?.what}
                  {isOn && " ✓"}
                </span>
                <kbd>{keyText(key)}</kbd>
              </button>
            );
          })}
        </div>
      ))}
    </div>
  );
}
