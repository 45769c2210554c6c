import { type Model, onPage } from "../session/model";

export interface Context {
  readonly model: Model;
  readonly el: HTMLElement;
}

/** What anywidget asks of a widget's front end. */
export interface Widget {
  initialize(context: Pick<Context, "model">): () => void;
  render(context: Context): () => void;
}

export type FrontEnd = () => Widget;

/** The front ends that this page has loaded, by key; kernels of several versions may show editors in one page. */
export function frontEnds(): Map<string, Promise<FrontEnd>> {
  return onPage("pnne_nb.frontEnds");
}

export function keyOf(model: Model): string {
  return String(model.get("bundle_key") ?? "");
}
