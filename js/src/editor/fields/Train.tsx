import { type ReactNode, useCallback, useEffect, useId, useState } from "react";
import type { ControlTraining, DataChoice, TrainChoices, TrainState } from "../../protocol";
import { useEditor } from "../commands/context";
import { runBelow } from "../host/nextCell";
import { numberText } from "../values/amounts";
import { Reason } from "./Reason";

/** How often a running training is looked at, in milliseconds. */
const EVERY = 400;
const RUNS = ["running", "paused"];
const BY_DATA = "chosen by the data";

/** Trains the graph: on what, how, and how far it is. `editor.engine` is the same training in Python. */
export function Train() {
  const { session } = useEditor();
  const [choices, setChoices] = useState<TrainChoices | null>(null);
  const [now, setNow] = useState<TrainState | null>(null);
  const [reason, setReason] = useState<string | null>(null);
  const [data, setData] = useState("");
  const [loss, setLoss] = useState("");
  const [optimizer, setOptimizer] = useState("AdamW");
  const [rate, setRate] = useState("0.001");
  const [epochs, setEpochs] = useState("5");
  const [precision, setPrecision] = useState("32");
  const fail = useCallback((error: Error) => setReason(error.message), []);
  const tell = useCallback(
    (request: Parameters<typeof session.train>[0]) => {
      if (request.message === "startTraining" || request.action !== "look") setReason(null);
      return session.train(request).then(setNow, fail);
    },
    [session, fail],
  );
  const control = (action: ControlTraining["action"]) => void tell({ message: "controlTraining", action });
  const open = () => {
    setReason(null);
    session.trainChoices().then((found) => {
      setChoices(found);
      if (!found.data.some((choice) => keyOf(choice) === data)) setData(keyOf(found.data[0]));
    }, fail);
    control("look");
  };
  useEffect(() => {
    if (!now || !RUNS.includes(now.state)) return;
    const timer = setTimeout(() => void tell({ message: "controlTraining", action: "look" }), EVERY);
    return () => clearTimeout(timer);
  }, [now, tell]);

  const chosen = choices?.data.find((choice) => keyOf(choice) === data);
  const start = () => {
    if (!chosen) return;
    const numbers = { learningRate: Number(rate), epochs: Math.trunc(Number(epochs)) };
    if (!(numbers.learningRate > 0 && numbers.epochs > 0)) setReason("The learning rate and the epochs are above 0.");
    else {
      const { kind, name: data } = chosen;
      void tell({ message: "startTraining", kind, data, loss, optimizer, precision, ...numbers });
    }
  };
  if (!choices)
    return (
      <div className="pnne-train">
        <button type="button" className="pnne-fix" onClick={open}>
          Train…
        </button>
        <Reason text={reason} />
      </div>
    );
  const isDrawn = chosen?.kind === "drawn";
  const runs = now !== null && RUNS.includes(now.state);
  return (
    <section className="pnne-fields pnne-train" aria-label="Train">
      <h3>Train</h3>
      <Labelled name="Data">
        {(id) => (
          <select
            id={id}
            value={data}
            onFocus={open}
            onChange={(event) => setData(event.target.value)}
            title={chosen?.text}
          >
            {choices.data.map((choice) => (
              <option key={keyOf(choice)} value={keyOf(choice)}>
                {choice.kind === "dataset" ? `pn.datasets.${choice.name}` : choice.name} {choice.text}
              </option>
            ))}
          </select>
        )}
      </Labelled>
      {!isDrawn && (
        <>
          <Labelled name="Loss">
            {(id) => <Names id={id} value={loss} usual={BY_DATA} names={choices.losses} set={setLoss} />}
          </Labelled>
          <Labelled name="Optimizer">
            {(id) => <Names id={id} value={optimizer} names={choices.optimizers} set={setOptimizer} />}
          </Labelled>
          <Labelled name="Learning rate">
            {(id) => <input id={id} type="text" value={rate} onChange={(event) => setRate(event.target.value)} />}
          </Labelled>
        </>
      )}
      <Labelled name="Precision">
        {(id) => <Names id={id} value={precision} names={["32", "bf16", "16"]} set={setPrecision} />}
      </Labelled>
      <Labelled name="Epochs">
        {(id) => (
          <input
            id={id}
            type="text"
            inputMode="numeric"
            value={epochs}
            onChange={(event) => setEpochs(event.target.value)}
          />
        )}
      </Labelled>
      <div className="pnne-train-buttons">
        {!runs && <Press name="Start" onPress={start} />}
        {now?.state === "running" && <Press name="Pause" onPress={() => control("pause")} />}
        {now?.state === "paused" && <Press name="Resume" onPress={() => control("resume")} />}
        {runs && <Press name="Stop" onPress={() => control("stop")} />}
      </div>
      <p className="pnne-hint">
        In Python: <code>{lineOf(chosen, [loss, optimizer, rate, precision, epochs])}</code>
      </p>
      <Reason text={reason} />
      {now?.state && (
        <Progress now={now}>
          <Press
            name="Open dashboard"
            onPress={() => (now.line && runBelow(session.model, now.widget, now.line)) || control("dashboard")}
          />
        </Progress>
      )}
    </section>
  );
}

function Progress({ now, children }: { now: TrainState; children: ReactNode }) {
  const { state, epoch, epochs, step, loss, losses, text, line } = now;
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const height = (value: number) => (high > low ? 40 - (38 * (value - low)) / (high - low) - 1 : 20);
  const points = losses.map((value, index) => `${(100 * index) / Math.max(1, losses.length - 1)},${height(value)}`);
  return (
    <div role="status" aria-label="Training">
      <p>
        {state}, epoch {Math.min(epoch, epochs)} of {epochs}, {step} steps
        {loss === null ? "" : `, loss ${numberText(loss)}`}
      </p>
      {losses.length > 1 && (
        <svg viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">
          <polyline points={points.join(" ")} />
        </svg>
      )}
      <p>{text}</p>
      {children}
      <p className="pnne-hint">
        In Python: <code>{line || "pn.TrainingDashboard(editor.engine)"}</code>
        {line ? "" : ", if editor = pn.GraphEditor(…)"}
      </p>
    </div>
  );
}

function Labelled({ name, children }: { name: string; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div className="pnne-field">
      <label className="pnne-field-label" htmlFor={id}>
        {name}
      </label>
      {children(id)}
    </div>
  );
}

interface NamesProps {
  id: string;
  value: string;
  names: readonly string[];
  usual?: string;
  set: (name: string) => void;
}

function Names({ id, value, names, usual, set }: NamesProps) {
  return (
    <select id={id} value={value} onChange={(event) => set(event.target.value)}>
      {usual && <option value="">{usual}</option>}
      {names.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}

function Press({ name, onPress }: { name: string; onPress: () => void }) {
  return (
    <button type="button" className="pnne-fix" onClick={onPress}>
      {name}
    </button>
  );
}

function lineOf(data: DataChoice | undefined, [loss, optimizer, rate, precision, epochs]: string[]): string {
  const last = `precision="${precision}", epochs=${epochs})`;
  if (data?.kind === "drawn") return `pn.TrainingEngine.from_graph(editor.graph, ${last}`;
  const from = data?.kind === "dataset" ? `pn.datasets.${data.name}()` : (data?.name ?? "(X, y)");
  const chosen = loss && `loss="${loss}", `;
  return `pn.TrainingEngine(editor.graph, ${from}, ${chosen}optimizer=("${optimizer}", {"lr": ${rate}}), ${last}`;
}

function keyOf(choice: DataChoice | undefined): string {
  return choice ? `${choice.kind} ${choice.name}` : "";
}
