import { useView } from "../commands/context";

const TEXTS = {
  here: "",
  leaving: "Escape again leaves the graph: keys then go to the notebook.",
  left: "You have left the graph: keys go to the notebook. Click the graph to come back.",
} as const;

/** Says before and after Escape leaves the editor that keys go to the notebook, where single letters change cells. */
export function KeysNote() {
  const keys = useView((view) => view.keys);
  return (
    <p className="pnne-keys-note" role="status" hidden={keys === "here"}>
      {TEXTS[keys]}
    </p>
  );
}
