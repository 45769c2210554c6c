import { useEffect, useState } from "react";
import type { ModuleChoice, TrainChoices } from "../../protocol";
import { useEditor, useSession } from "../commands/context";
import { openFile } from "../commands/files";
import { shownType, templateTypes } from "../document/blocks";
import { runBelow } from "../host/nextCell";

/** What an empty graph can begin with: a template, a module of the notebook in an editor of its own, or a file. */
export function Starts() {
  const editor = useEditor();
  const { session } = editor;
  const library = useSession((state) => state.catalog?.templates);
  const [found, setFound] = useState<TrainChoices | null>(null);
  useEffect(() => {
    session.trainChoices().then(setFound, () => setFound(null));
  }, [session]);
  const open = async ({ name }: ModuleChoice) => {
    const now = await session.trainChoices().catch(() => null);
    const there = now?.modules.find((choice) => choice.name === name);
    setFound(now);
    if (!now || !there) session.notify(`The kernel has no module ${name} any more: run the cell that makes it.`);
    else if (!runBelow(session.model, now.widget, there.line)) session.notify(`Run this in a cell: ${there.line}`);
  };
  return (
    <p className="pnne-starts">
      {(library ? templateTypes(library) : []).map(({ type, doc }) => (
        <button key={type} type="button" className="pnne-fix" title={doc} onClick={() => editor.add(type)}>
          {shownType(type)}
        </button>
      ))}
      {found?.modules.map((choice) => (
        <button
          key={`module ${choice.name}`}
          type="button"
          className="pnne-fix"
          title={`${choice.line}, in the next cell`}
          onClick={() => void open(choice)}
        >
          {choice.name} ({choice.text})
        </button>
      ))}
      <button type="button" className="pnne-fix" onClick={() => openFile(editor)}>
        A graph file… (or drop it here)
      </button>
    </p>
  );
}
