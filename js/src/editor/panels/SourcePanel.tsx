import { useEffect, useMemo, useState } from "react";
import { useEditor, useSession } from "../commands/context";
import { tokensOf } from "../fields/python";
import { download } from "../host/download";

type Shown = { text: string } | { error: string } | null;

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
      (text) => current && setShown({ text }),
      (error: Error) => current && setShown({ error: error.message }),
    );
    return () => {
      current = false;
    };
  }, [editor, version]);

  const copy = async () => {
    if (shown && "text" in shown) setCopied(await editor.copyText(shown.text));
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
        <button type="button" className="pnne-plain" onClick={copy} disabled={!shown || "error" in shown}>
          {copied ? "Copied" : "Copy"}
        </button>
        <button
          type="button"
          className="pnne-plain"
          title="Save as a Python file"
          onClick={save}
          disabled={!shown || "error" in shown}
        >
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
      {shown && "text" in shown && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard
        <pre tabIndex={0}>
          <Python source={shown.text} />
        </pre>
      )}
      {shown && "error" in shown && <p className="pnne-source-error">{shown.error}</p>}
      {!shown && <p className="pnne-hint">Generating…</p>}
    </section>
  );
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
