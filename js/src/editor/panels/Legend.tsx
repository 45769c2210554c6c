import { useEffect, useRef } from "react";
import type { LayerFault } from "../../protocol";
import { LAYER_FAULTS } from "../canvas/Live";
import { useEditor, useSession } from "../commands/context";
import type { LiveTraining } from "../session/training";
import { numberText } from "../values/amounts";

/** What the colours and numbers of a training mean, while one is shown. */
export function Legend() {
  const training = useSession((state) => state.training);
  return training ? <Shown training={training} /> : null;
}

function Shown({ training }: { training: LiveTraining }) {
  const editor = useEditor();
  const { tick, step, range, faulty } = training;
  useEffect(() => {
    // The next picture is asked for only after this one was painted: this keeps the kernel from flooding the page.
    const frame = requestAnimationFrame(() => setTimeout(() => editor.session.painted(tick)));
    return () => cancelAnimationFrame(frame);
  }, [editor, tick]);
  useAnnouncement(faulty);
  return (
    <section className="pnne-legend" aria-label="Live training">
      <div>
        <span className="pnne-legend-step">
          <i className="pnne-pulse" />
          Training, step {step.toLocaleString("en-US")}
        </span>
        {range && (
          <span className="pnne-scale" title="The norm of the gradient that comes back along an edge">
            ∇ gradient norm <b>{numberText(range[0])}</b>
            <svg viewBox="0 0 60 10" aria-hidden="true">
              <path d="M0 4.4L60 1v8L0 5.6z" />
            </svg>
            <b>{numberText(range[1])}</b>
          </span>
        )}
        <span title="Standard deviation of what a node gives, and the share of it that is 0">σ spread of output</span>
        <Faulty faulty={faulty} />
      </div>
      <button
        type="button"
        className="pnne-plain"
        aria-label="Hide the training"
        title="Hide, and measure no more"
        onClick={() => editor.session.hideTraining()}
      >
        ×
      </button>
    </section>
  );
}

/** Each kind of trouble with how many layers have it; a click goes to them one after another. */
function Faulty({ faulty }: { faulty: LiveTraining["faulty"] }) {
  const editor = useEditor();
  const last = useRef("");
  const byKind = new Map<LayerFault["kind"], string[]>();
  for (const [path, kind] of faulty) byKind.set(kind, [...(byKind.get(kind) ?? []), path]);
  const next = (paths: readonly string[]) => {
    const path = paths[(paths.indexOf(last.current) + 1) % paths.length] ?? "";
    last.current = path;
    editor.jumpTo(path);
  };
  return (
    <>
      {[...byKind].map(([kind, paths]) => (
        <button
          type="button"
          key={kind}
          className={`pnne-layer-fault pnne-layer-fault-${kind}`}
          title={`Go to ${paths.join(", ")}`}
          onClick={() => next(paths)}
        >
          {paths.length} {LAYER_FAULTS[kind]}
        </button>
      ))}
    </>
  );
}

/** Tells screen readers of trouble as it comes up, and of nothing else: numbers change all the time. */
function useAnnouncement(faulty: LiveTraining["faulty"]): void {
  const editor = useEditor();
  const known = useRef<LiveTraining["faulty"]>(new Map());
  useEffect(() => {
    const fresh = [...faulty].filter(([path, kind]) => known.current.get(path) !== kind);
    known.current = faulty;
    if (fresh.length > 0)
      editor.patch({ said: fresh.map(([path, kind]) => `${path}: ${LAYER_FAULTS[kind]}`).join(", ") });
  }, [editor, faulty]);
}
