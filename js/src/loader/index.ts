// Stands for the editor's front end in a page that has loaded it already. A page keeps every module that it has ever
// imported: half a megabyte for each run of a cell would soon be much.
import { type Context, type FrontEnd, frontEnds, keyOf, type Widget } from "../editor/host/frontEnds";
import type { Model } from "../editor/session/model";

/** How long another editor's request for the front end is waited for, in milliseconds: that editor may have gone. */
const PATIENCE = 3_000;

interface Loaded {
  readonly widget: Widget;
  readonly end: () => void;
}

export default function loader() {
  let loading: Promise<Loaded> | null = null;
  return {
    /** Waits for nothing: anywidget gives up a model that is not ready after two seconds, and a kernel may be busy. */
    initialize(context: Pick<Context, "model">): () => void {
      const ready = loaded(context.model).then((frontEnd) => {
        const widget = frontEnd();
        return { widget, end: widget.initialize(context) };
      });
      loading = ready;
      return () => void ready.then(({ end }) => end()).catch(() => {});
    },
    async render(context: Context): Promise<() => void> {
      if (!loading) throw new Error("The editor's model was not initialised.");
      return (await loading).widget.render(context);
    },
  };
}

/** The front end of this page, or Python's, for a page that was loaded anew or is another one. */
async function loaded(model: Model): Promise<FrontEnd> {
  const key = keyOf(model);
  const known = frontEnds().get(key);
  const found = known && (await inTime(known));
  if (found) return found;
  const own = asked(model);
  frontEnds().set(key, own);
  return own;
}

/** What a promise gives, or null where it takes too long or fails. */
function inTime<T>(promise: Promise<T>): Promise<T | null> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(null), PATIENCE);
    promise.then(resolve, () => resolve(null)).finally(() => clearTimeout(timer));
  });
}

function asked(model: Model): Promise<FrontEnd> {
  return new Promise((resolve) => {
    const take = (answer: { message?: string; text?: string }) => {
      if (answer?.message !== "bundle") return;
      model.off("msg:custom", take);
      const address = URL.createObjectURL(new Blob([answer.text ?? ""], { type: "text/javascript" }));
      const module: Promise<{ default: FrontEnd }> = import(address);
      resolve(module.then((found) => found.default).finally(() => URL.revokeObjectURL(address)));
    };
    model.on("msg:custom", take);
    model.send({ message: "getBundle", id: 0, client: "loader" });
  });
}
