import { useEffect, useState } from "react";
import type { SeenTensor as Seen } from "../../protocol";
import { Beside } from "../canvas/Peek";
import { useEditor, useScene, useSession, useView } from "../commands/context";
import { see } from "../commands/runToHere";
import { splitPort } from "../document/document";
import { Histogram } from "../fields/Histogram";
import { addressOn } from "../scene/card";
import type { ShownScene } from "../scene/scene";
import { numberText } from "../values/amounts";

/** What a port gives for one example, beside the card. */
export function SeenTensor() {
  const seen = useView((view) => view.seen);
  const scene = useScene();
  return seen && scene?.cards.has(seen.card) ? <Panel key={seen.port} scene={scene} {...seen} /> : null;
}

function Panel({ scene, card, port }: { scene: ShownScene; card: string; port: string }) {
  const editor = useEditor();
  const version = useSession((state) => state.sync?.version);
  const [outcome, setOutcome] = useState<Seen | Error | null>(null);
  const [runs, setRuns] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each click on Run again runs it
  useEffect(() => {
    let current = true;
    setOutcome(null);
    const arrived = (answer: Seen | Error) => {
      if (!current) return;
      setOutcome(answer);
      editor.patch({ said: answer instanceof Error ? answer.message : `${port}: ${shapeText(answer)}` });
    };
    editor.session.runToHere(port).then(arrived, arrived);
    return () => {
      current = false;
    };
  }, [editor, port, runs]);
  const outputs = scene.cards.get(card)?.ports.outputs ?? [];
  const address = port.slice(scene.prefix.length);
  const seen = outcome instanceof Error ? null : outcome;
  const shown = scene.cards.get(card);
  return (
    <Beside
      scene={scene}
      card={card}
      label={`Tensor at ${address}`}
      title={splitPort(address)[0]}
      note={outputs.length > 1 ? "" : splitPort(address)[1]}
      actions={
        <button type="button" className="pnne-fix" disabled={outcome === null} onClick={() => setRuns(runs + 1)}>
          Run again
        </button>
      }
      onClose={() => editor.patch({ seen: null })}
    >
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a tall one is scrolled by keyboard */}
      <section className="pnne-seen" tabIndex={0} aria-label="What is there" aria-busy={outcome === null}>
        {shown && outputs.length > 1 && (
          <nav aria-label="Outputs">
            {outputs.map(({ name }) => {
              const other = addressOn(shown, name, "output");
              return (
                <button
                  type="button"
                  key={name}
                  aria-pressed={other === address}
                  onClick={() => see(editor, card, other)}
                >
                  {name}
                </button>
              );
            })}
          </nav>
        )}
        {outcome === null && <p>Running one example up to here…</p>}
        {outcome instanceof Error && <p className="pnne-seen-error">{outcome.message}</p>}
        {seen && <Contents seen={seen} />}
        {seen && version !== undefined && seen.version < version && (
          <p className="pnne-seen-fact">The graph has changed since.</p>
        )}
      </section>
    </Beside>
  );
}

function Contents({ seen }: { seen: Seen }) {
  const { text, facts, statistics, histogram, picture, caption } = seen;
  const numbers = Object.entries(statistics);
  return (
    <>
      <p className="pnne-seen-shape">{shapeText(seen)}</p>
      {text && <p className="pnne-seen-shape">{text}</p>}
      {picture && (
        <figure>
          <img src={picture} alt={caption} />
          <figcaption>{caption}</figcaption>
        </figure>
      )}
      {histogram && (
        <Histogram label="How its values are spread" {...histogram}>
          {histogram.leftOut > 0 && `${histogram.leftOut} are not finite`}
        </Histogram>
      )}
      {numbers.length > 0 && (
        <dl>
          {numbers.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                {name === "zeros" ? `${(100 * value).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %` : numberText(value)}
              </dd>
            </div>
          ))}
        </dl>
      )}
      {facts.map((fact) => (
        <p className="pnne-seen-fact" key={fact}>
          {fact}
        </p>
      ))}
    </>
  );
}

function shapeText({ shape, dtype }: Seen): string {
  if (shape === null) return dtype;
  return `${dtype} ${shape.length === 0 ? "scalar" : shape.join(" × ")}`;
}
