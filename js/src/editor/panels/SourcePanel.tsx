import { useEffect, useMemo, useRef, useState } from "react";
import type { Source } from "../../protocol";
import { useEditor, useScene, useSession, useView } from "../commands/context";
import { copyText } from "../commands/files";
import { tokensOf } from "../fields/python";
import { download } from "../host/download";

type Shown = Source | { error: string } | null;

/** The PyTorch source of the graph, kept current while it is open. */
export function SourcePanel() {
  const editor = useEditor();
  const version = useSession((state) => state.sync?.version);
  const [shown, setShown] = useState<Shown>(null);
  const [copied, setCopied] = useState(false);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new version of the document has a new source
  useEffect(() => {
    let current = true;
    setCopied(false);
    editor.session.source().then(
      (source) => current && setShown(source),
      (error: Error) => current && setShown({ error: error.message }),
    );
    return () => {
      current = false;
    };
  }, [editor, version]);

  const isThere = shown !== null && "text" in shown && shown.text !== "";
  const copy = async () => {
    if (shown && "text" in shown) setCopied(await copyText(editor, shown.text));
  };
  const save = () => {
    const name = editor.session.document?.name.replace(/\W+/g, "_") || "model";
    if (shown && "text" in shown) download(new Blob([shown.text], { type: "text/x-python" }), `${name}.py`);
  };
  return (
    <section className="pnne-source nowheel" aria-label="Source">
      <header>
        <h2>PyTorch source</h2>
        <span className="pnne-spring" />
        <button type="button" className="pnne-plain" onClick={copy} disabled={!isThere}>
          {copied ? "Copied" : "Copy"}
        </button>
        <button type="button" className="pnne-plain" title="Save as a Python file" onClick={save} disabled={!isThere}>
          Save
        </button>
        <button
          type="button"
          className="pnne-plain"
          aria-label="Close"
          onClick={() => editor.showPanel("source", false)}
        >
          ×
        </button>
      </header>
      {shown?.error && <p className="pnne-source-error">{shown.error}</p>}
      {isThere && <Code source={shown} />}
      {!shown && <p className="pnne-hint">Generating…</p>}
    </section>
  );
}

/** The text, with the lines of the selected nodes marked and in view. */
function Code({ source }: { source: Source }) {
  const scene = useScene();
  const selected = useView((view) => view.nodes);
  const box = useRef<HTMLPreElement>(null);
  const lines = useMemo(
    () => [...new Set([...selected].flatMap((name) => linesOf(source, `${scene?.prefix ?? ""}${name}`)))],
    [source, scene?.prefix, selected],
  );
  const [first] = lines;
  useEffect(() => {
    const { current } = box;
    if (!current || first === undefined) return;
    const top = (first - 1) * LINE_HEIGHT;
    if (top < current.scrollTop || top > current.scrollTop + current.clientHeight - 3 * LINE_HEIGHT)
      current.scrollTop = Math.max(0, top - current.clientHeight / 3);
  }, [first]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
    <pre tabIndex={0} ref={box} style={{ lineHeight: `${LINE_HEIGHT}px` }}>
      <div className="pnne-source-lines">
        {lines.map((line) => (
          <i key={line} data-line={line} style={{ top: (line - 1) * LINE_HEIGHT, height: LINE_HEIGHT }} />
        ))}
        <Python source={source.text} />
      </div>
    </pre>
  );
}

const LINE_HEIGHT = 18;

/** The lines of a node, given as a full path; those of the block around it where it has none of its own. */
function linesOf({ classes = {} }: Source, path: string): readonly number[] {
  let found: readonly number[] = [];
  let id = "";
  for (const name of path.split(".")) {
    const here = classes[id];
    const next = here?.members?.[name];
    found = here?.lines[name] ?? found;
    if (next === undefined) break;
    id = next;
  }
  return found;
}

function Python({ source }: { source: string }) {
  const tokens = useMemo(() => tokensOf(source), [source]);
  return (
    <code>
      {tokens.map(({ kind, text }, place) =>
        kind === null ? (
          text
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: a new source is drawn anew
          <span key={place} className={`pnne-py-${kind}`}>
            {text}
          </span>
        ),
      )}
    </code>
  );
}
