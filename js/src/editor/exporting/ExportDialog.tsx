import { useEffect, useRef, useState } from "react";
import type { ExportFormats } from "../../protocol";
import { useEditor, useSession } from "../commands/context";
import { checkLens, errorLens, freeSizes, type LensKind } from "../session/exporting";
import { CheckResult } from "./CheckResult";
import { Outcome } from "./Outcome";

/** Writes the model to a file for another runtime: what will happen, how far it is, and how well the file agrees. */
export function ExportDialog({ readOnly }: { readOnly: boolean }) {
  const editor = useEditor();
  const [offer, setOffer] = useState<ExportFormats | null>(null);
  const [error, setError] = useState("");
  const [format, setFormat] = useState("");
  const [path, setPath] = useState("");
  const [overwrite, setOverwrite] = useState(false);
  const exporting = useSession((state) => state.exporting);
  const shown = useSession((state) => state.sync?.shown);
  const first = useRef<HTMLSelectElement>(null);
  const [lens, setLens] = useLens();
  const chosen = offer?.formats.find(({ name }) => name === format);
  const running = exporting?.state === "running";

  useEffect(() => {
    let current = true;
    editor.session.exportFormats().then(
      (found) => {
        if (!current) return;
        const begin = found.formats.find(({ missing }) => !missing) ?? found.formats[0];
        setOffer(found);
        setFormat(begin?.name ?? "");
        setPath(`${fileName(editor.session.document?.name)}${begin?.suffix ?? ""}`);
      },
      (reason: Error) => current && setError(reason.message),
    );
    return () => {
      current = false;
    };
  }, [editor]);

  const opened = offer !== null;
  useEffect(() => {
    if (opened) first.current?.focus();
  }, [opened]);

  const checkable = chosen && !chosen.missing ? chosen.name : "";
  useEffect(() => {
    if (!checkable) return;
    editor.session.watchExport(checkable);
    return () => editor.session.watchExport("");
  }, [editor, checkable]);

  const choose = (name: string) => {
    const next = offer?.formats.find((each) => each.name === name);
    const stem = chosen && path.endsWith(chosen.suffix) ? path.slice(0, -chosen.suffix.length) : path;
    setFormat(name);
    setPath(`${stem}${next?.suffix ?? ""}`);
  };
  const start = () => {
    setError("");
    editor.session.startExport(format, path.trim(), overwrite).then(
      () => setLens("error"),
      (reason: Error) => setError(reason.message),
    );
  };
  const close = () => {
    editor.showPanel("exporting", false);
    editor.root?.querySelector<HTMLElement>(".pnne-canvas")?.focus({ preventScroll: true });
  };
  return (
    <section
      className="pnne-export nowheel"
      role="dialog"
      aria-label="Export"
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        event.stopPropagation();
        close();
      }}
    >
      <header>
        <h2>Export</h2>
        <span className="pnne-spring" />
        <button type="button" className="pnne-plain" aria-label="Close" onClick={close}>
          ×
        </button>
      </header>
      <div className="pnne-export-body">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            start();
          }}
        >
          <label>
            <span>Format</span>
            <select ref={first} value={format} disabled={!offer || running} onChange={(e) => choose(e.target.value)}>
              {offer?.formats.map(({ name, suffix, missing }) => (
                <option key={name} value={name}>
                  {`${name} (${suffix})${missing ? ", not installed" : ""}`}
                </option>
              ))}
            </select>
          </label>
          <label>
            <span>File</span>
            <input
              type="text"
              value={path}
              spellCheck={false}
              disabled={running}
              title={offer ? `In ${offer.folder}, unless the path is absolute` : undefined}
              onChange={(event) => setPath(event.target.value)}
            />
          </label>
          <label className="pnne-export-check">
            <input
              type="checkbox"
              checked={overwrite}
              disabled={running}
              onChange={(event) => setOverwrite(event.target.checked)}
            />
            Replace a file that is there
          </label>
          <p className="pnne-hint">
            {shown && `Free sizes: ${freeSizes(shown).join(", ") || "none"}. `}
            {offer?.weights} {chosen?.note}
          </p>
          {chosen?.missing && <p className="pnne-export-error">{chosen.missing}</p>}
          {error && (
            <p className="pnne-export-error" role="alert">
              {error}
            </p>
          )}
          <p className="pnne-export-buttons">
            {running ? (
              <button
                type="button"
                className="pnne-fix"
                disabled={!exporting.cancellable}
                title={
                  exporting.cancellable ? undefined : "It runs in the kernel, because of node types of this notebook"
                }
                onClick={() => editor.session.cancelExport()}
              >
                Cancel export
              </button>
            ) : (
              <button
                type="submit"
                className="pnne-fix pnne-primary"
                disabled={readOnly || !chosen || chosen.missing !== "" || !path.trim()}
                title={readOnly ? "This editor is read-only" : undefined}
              >
                Export and prove
              </button>
            )}
          </p>
        </form>
        <Outcome />
        <fieldset className="pnne-export-lens">
          <legend>Colour nodes by</legend>
          {LENSES.map(([kind, label]) => (
            <label key={kind}>
              <input
                type="radio"
                name={`lens ${offer?.client}`}
                checked={lens === kind}
                onChange={() => setLens(kind)}
              />
              {label}
            </label>
          ))}
        </fieldset>
        <CheckResult />
      </div>
    </section>
  );
}

const LENSES: readonly (readonly [LensKind | null, string])[] = [
  ["check", "what an export would do"],
  ["error", "error ÷ tolerance of the latest one"],
  [null, "nothing"],
];

/** Which lens is on; it is while the dialog is open. */
function useLens(): [LensKind | null, (kind: LensKind | null) => void] {
  const editor = useEditor();
  const [kind, setKind] = useState<LensKind | null>("check");
  const check = useSession((state) => state.exportCheck);
  const exporting = useSession((state) => state.exporting);
  const shown = useSession((state) => state.sync?.shown);
  useEffect(() => {
    const names = [...(shown?.graphs.get("")?.nodes.keys() ?? [])];
    editor.patch({ lens: kind === "check" ? checkLens(check, names) : kind === "error" ? errorLens(exporting) : null });
  }, [editor, kind, check, exporting, shown]);
  useEffect(() => () => editor.patch({ lens: null }), [editor]);
  return [kind, setKind];
}

function fileName(name: string | undefined): string {
  return name?.replace(/\W+/g, "_") || "model";
}
