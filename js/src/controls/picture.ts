// A picture of the dashboard: what several widgets have to show at once, in one message of the control bar. It is taken
// apart here, and given to the models of those widgets as if each had received a message of its own.
import type { ControlEvent } from "../protocol";
import type { Manager, Model, Receiver } from "./host";

const RETRIES = 50;
const RETRY_MS = 100;

/** The model by its id; waits for a model that an opening page has not made yet. */
async function found(manager: Manager, id: string): Promise<Receiver | null> {
  for (let tries = 0; tries < RETRIES; tries++) {
    try {
      return await manager.get_model(id);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  return null;
}

/** Hand on every picture that `model` receives; returns what ends it. */
export function handOnPictures(model: Pick<Model, "on" | "off">, manager: Manager): () => void {
  const receivers = new Map<string, Promise<Receiver | null>>();
  const onMessage = (content: ControlEvent, buffers: DataView[]) => {
    if (content.kind !== "picture") return;
    let taken = 0;
    for (const { model: id, state, paths } of content.updates) {
      const own = buffers.slice(taken, taken + paths.length);
      taken += paths.length;
      const data = { method: "update", state, buffer_paths: paths };
      const receiver = receivers.get(id) ?? found(manager, id);
      receivers.set(id, receiver);
      // Through one promise for each model, so that what came first is shown first.
      void receiver.then(async (there) => {
        if (there === null) receivers.delete(id);
        await there?._handle_comm_msg({ content: { data }, buffers: own });
      });
    }
  };
  model.on("msg:custom", onMessage);
  return () => model.off("msg:custom", onMessage);
}
