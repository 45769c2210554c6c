// The bar on top of the dashboard: buttons, state, progress, what went wrong.
import type { Command, TrainingStatus } from "../protocol";
import { button, element, icon, keepKeys, listen, setText } from "./dom";
import { bringBackText, noticeItem } from "./findings";
import {
  editedText,
  enabled,
  failureText,
  findings,
  footnote,
  fraction,
  mainCommand,
  progressFacts,
  rateRefusal,
  rateText,
  stateText,
  typedRate,
} from "./format";
import type { Model } from "./host";
import { halt, Requests } from "./requests";
import { silencePanel } from "./silence";

const PLAY = "M4 2.5v11l9-5.5z";

const LOOKS: Record<Command, readonly [name: string, hint: string, icon: string]> = {
  start: ["Start", "Start training in the background", PLAY],
  resume: ["Resume", "Go on training", PLAY],
  pause: ["Pause", "Halt after the running step", "M3.5 2.5h3v11h-3zm6 0h3v11h-3z"],
  step: ["Step", "Make one optimizer step, then halt", "M3 2.5v11l7-5.5zm8 0h2.5v11H11z"],
  stop: ["Stop", "End training after the running step", "M3 3h10v10H3z"],
  validate: ["Validate", "Validate now, between two steps", "M6.2 12.6 1.9 8.3l1.5-1.5 2.8 2.8 6.4-6.4 1.5 1.5z"],
  save: ["Save", "Write a checkpoint now, between two steps", "M2.5 2.5h9l2 2v9h-11zM5 3.8v3h5.5v-3zM4.8 9v3.2h6.4V9z"],
  rewind: [
    "Go back",
    "Be where the training was 20 steps ago; Start goes on from there",
    "M8 2.5v4.2l6-4.2v11L8 9.3v4.2L1.5 8z",
  ],
  batch: [
    "Show the batch",
    "Show the examples that the fault came from, or hide them",
    "M2 3h12v2H2zm0 4h12v2H2zm0 4h8v2H2z",
  ],
  skip: ["Try without it", "Leave this batch out and go on with the next one", "M2 2.5v11l6-5.5zm6 0v11l6-5.5z"],
};

const COST =
  "Processor seconds of the training thread that measuring layers took, also inside forward and backward, of each second" +
  " that passed, since watching began, with its 95 % interval: what the budget of an inspector is about. “Where the time" +
  " goes” is by the clock instead.";

const GONE =
  "The kernel that trained this was restarted or has ended. This is how the training stood; run the cells again.";

function commandButton(command: Command, hidden = false): HTMLButtonElement {
  const made = button({ hidden });
  label(made, command);
  return made;
}

function label(button: HTMLButtonElement, command: Command): void {
  if (button.dataset.command === command) return;
  const [name, hint, path] = LOOKS[command];
  button.dataset.command = command;
  button.title = hint;
  button.setAttribute("aria-label", name);
  button.replaceChildren(icon(path), name);
}

export function renderBar({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const commands = (["start", "step", "stop", "validate", "save"] as const).map((command) => commandButton(command));
  const main = commands[0] as HTMLButtonElement;
  main.classList.add("pnne-primary");
  const show = button(
    {
      class: "pnne-button pnne-show",
      title: "Show activations, gradients and layers in trouble on the graph, in every open editor of it",
    },
    icon("M1.5 1.5h5v4h-5zM9.5 10.5h5v4h-5zM4 6.5h1.2v5h3.3v1.2H4zM9 2.5h5.5v1.2H9zM9 5h4v1.2H9z"),
    "Show on graph",
  );
  const exporting = button(
    {
      class: "pnne-button pnne-show",
      title: "Write the trained model to a file for another runtime, and prove the file",
    },
    icon("M8 1.5 4.5 5l.9.9 2-2V10h1.2V3.9l2 2 .9-.9zM2.5 8v6.5h11V8h-1.2v5.3H3.7V8z"),
    "Export",
  );
  const badge = element("span", { class: "pnne-state", role: "status" });
  const facts = element("span", { class: "pnne-facts" });
  const rate = element("input", {
    type: "text",
    inputmode: "decimal",
    "aria-label": "Learning rate",
    title: "Learning rate: type another one and press Enter",
  });
  const filled = element("div", { class: "pnne-progress-filled" });
  const progress = element(
    "div",
    {
      class: "pnne-progress",
      role: "progressbar",
      "aria-label": "Training progress",
      "aria-valuemin": "0",
      "aria-valuemax": "100",
    },
    filled,
  );
  const errorNode = element("code", {});
  const errorText = element("pre", {});
  const remedies = (["rewind", "batch", "skip"] as const).map((command) => commandButton(command, true));
  const batchText = element("pre", { class: "pnne-batch", hidden: true });
  const failure = element(
    "div",
    { class: "pnne-error", hidden: true },
    element("div", { role: "alert" }, errorNode, errorText),
    element("div", { class: "pnne-buttons", role: "group", "aria-label": "What to do about it" }, ...remedies),
    batchText,
  );
  const refusal = element("div", { class: "pnne-refusal", role: "alert", hidden: true });
  const edited = element("div", { class: "pnne-edited", role: "status", hidden: true });
  const notices = element("ul", { class: "pnne-notices", "aria-label": "Findings", hidden: true });
  const bringBack = element("button", { type: "button", class: "pnne-bring-back", hidden: true });
  const cost = element("div", { class: "pnne-cost", title: COST });
  const silence = silencePanel(model);
  const gone = element("div", { class: "pnne-gone", role: "status", hidden: true }, GONE);
  const buttons = element("div", { class: "pnne-buttons", role: "group", "aria-label": "Training" }, ...commands);
  const root = element(
    "div",
    { class: "pnne-bar", "data-testid": "pnne-controls" },
    element(
      "div",
      { class: "pnne-row" },
      buttons,
      badge,
      element(
        "div",
        { class: "pnne-aside" },
        facts,
        element("label", { class: "pnne-rate" }, "lr", rate),
        exporting,
        show,
      ),
    ),
    progress,
    gone,
    failure,
    refusal,
    silence.root,
    edited,
    notices,
    bringBack,
    cost,
  );
  keepKeys(root);
  el.append(root);

  const requests = new Requests(model, {
    onError: (message) => {
      setText(refusal, message);
      refusal.hidden = false;
    },
    onSilence: () => isGone() || silence.show(),
    onAnswer: silence.hide,
  });
  const isGone = () => !gone.hidden;
  for (const button of [...commands, ...remedies]) {
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") === "true") return;
      refusal.hidden = true;
      const command = button.dataset.command as Command;
      halt(command, model.get("direct") as string | undefined);
      requests.send({ kind: "command", command });
    });
  }

  const showRate = () => {
    rate.value = rateText((model.get("status") as TrainingStatus).learningRate);
  };
  rate.addEventListener("focus", () => rate.select());
  const judgeRate = (wrong: boolean) => {
    rate.setAttribute("aria-invalid", String(wrong));
    refusal.hidden = !wrong;
  };
  rate.addEventListener("blur", () => {
    if (rate.getAttribute("aria-invalid") === "true") judgeRate(false);
    showRate();
  });
  rate.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      judgeRate(false);
      showRate();
    }
    if (event.key !== "Enter" || isGone() || rate.readOnly) return;
    const typed = typedRate(rate.value);
    judgeRate(typed === null);
    if (typed === null) setText(refusal, rateRefusal(rate.value));
    else {
      requests.send({ kind: "rate", rate: typed });
      rate.value = rateText(typed);
      rate.select();
    }
  });

  const toggles = [
    { toggle: show, kind: "show", trait: "shown" },
    { toggle: exporting, kind: "export", trait: "exporting" },
  ] as const;
  for (const { toggle, kind, trait } of toggles) {
    toggle.addEventListener("click", () => {
      if (isGone()) return;
      refusal.hidden = true;
      requests.send({ kind, on: model.get(trait) !== true });
    });
  }

  const dismiss = (number: number | null) => {
    if (!isGone()) requests.send({ kind: "dismiss", number });
  };
  bringBack.addEventListener("click", () => dismiss(null));

  let shownNotices = "";
  const draw = () => {
    const status = model.get("status") as TrainingStatus;
    const offers = model.get("offers") as string[];
    root.dataset.state = isGone() ? "gone" : status.state;
    label(main, mainCommand(status.state));
    rate.readOnly = !offers.includes("rate");
    for (const { toggle, kind } of toggles) toggle.hidden = !offers.includes(kind);
    for (const button of commands) {
      button.hidden = !offers.includes(button.dataset.command as Command);
      // aria-disabled, not disabled: a button that turns itself off must not lose the keyboard's focus.
      const isEnabled = !isGone() && enabled(button.dataset.command as Command, status.state);
      button.setAttribute("aria-disabled", String(!isEnabled));
    }
    setText(badge, isGone() ? "Not connected" : stateText(status));
    // What is being typed stays.
    if (!rate.matches(":focus")) showRate();
    setText(facts, progressFacts(status).join(" · "));
    const percent = Math.round(1000 * fraction(status)) / 10;
    filled.style.width = `${percent}%`;
    progress.setAttribute("aria-valuenow", String(Math.round(percent)));
    failure.hidden = status.error === null;
    errorNode.hidden = status.node === null;
    setText(errorNode, status.node ?? "");
    setText(errorText, failureText(status));
    for (const button of remedies) {
      button.hidden = isGone() || !status.remedies.includes(button.dataset.command as Command);
    }
    batchText.hidden = status.batchText === "";
    setText(batchText, status.batchText);
    const edits = editedText(status);
    edited.hidden = edits === "";
    setText(edited, edits);
    bringBack.hidden = status.dismissed === 0;
    const found = findings(status);
    const described = JSON.stringify(found);
    if (described !== shownNotices) {
      shownNotices = described;
      const focused = [...notices.querySelectorAll("button")].findIndex((button) => button.matches(":focus"));
      notices.replaceChildren(...found.map((notice) => noticeItem(notice, dismiss)));
      notices.hidden = found.length === 0;
      keepKeys(notices);
      // Whoever dismisses by the keyboard goes on with the next one.
      if (focused >= 0) {
        const rest = [...notices.querySelectorAll("button")];
        (rest[Math.min(focused, rest.length - 1)] ?? bringBack).focus();
      }
    }
    setText(bringBack, bringBackText(status.dismissed));
    setText(cost, footnote(status));
  };
  // A few frames after one that is acknowledged, the kernel waits for the next that is painted: this is what keeps it
  // from flooding the page. One of so many is enough, because an acknowledgement costs it half as much as drawing one.
  const acknowledge = () => {
    const tick = model.get("tick");
    if (Number(tick) % Number(model.get("in_flight")) === 0)
      requestAnimationFrame(() => setTimeout(() => model.send({ kind: "ack", tick })));
  };
  const drawShown = () => {
    for (const { toggle, trait } of toggles) toggle.setAttribute("aria-pressed", String(model.get(trait) === true));
  };
  // ipywidgets marks every view so when its kernel has gone; whichever hears of it first.
  const drawGone = () =>
    queueMicrotask(() => {
      gone.hidden = root.closest(".jupyter-widgets-disconnected") === null;
      rate.disabled = isGone();
      for (const { toggle } of toggles) toggle.setAttribute("aria-disabled", String(isGone()));
      if (isGone()) silence.hide();
      draw();
    });
  const end = listen(model, {
    "change:status": draw,
    "change:tick": acknowledge,
    "change:offers": draw,
    "change:shown": drawShown,
    "change:exporting": drawShown,
    comm_live_update: drawGone,
  });
  draw();
  drawShown();
  return () => {
    end();
    requests.close();
    root.remove();
  };
}
