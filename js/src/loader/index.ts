// Stands for the editor's front end in a page that has loaded it already. A page keeps every module that it has ever
// imported: half a megabyte for each run of a cell would soon be much.
import { type Context, type FrontEnd, frontEnds, keyOf, type Widget } from "../editor/frontEnds";
import type { Model } from "../editor/session/model";

export default function loader() {
  let widget: Widget | null = null;
  return {
    async initialize(context: Pick<Context, "model">): Promise<() => void> {
      widget = (await loaded(context.model))();
      return widget.initialize(context);
    },
    render(context: Context): () => void {
      if (!widget) throw new Error("The editor's model was not initialized.");
      return widget.render(context);
    },
  };
}

/** The front end of this page, or Python's, for a page that was loaded anew or is another one. */
function loaded(model: Model): Promise<FrontEnd> {
  const key = keyOf(model);
  const known = frontEnds().get(key) ?? asked(model);
  frontEnds().set(key, known);
  return known;
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
