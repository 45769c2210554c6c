// What was found, the most probable cause first: each with a small picture of what shows it, and to be dismissed.
import type { EvidenceBar, EvidenceCurve, Notice } from "../protocol";
import { element, svgElement } from "./dom";

const WIDTH = 132;
const HEIGHT = 36;

/** Largest ratio of two bars; beyond it, lengths are logarithmic. */
const FAR = 50;

export function shortNumber(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1).replace("e+", "e");
  return Number(value.toPrecision(3)).toLocaleString("en-US");
}

/** Lengths between 0 and 1, the longest 1; of numbers that are far apart, by their powers of ten. */
export function barLengths(values: readonly number[]): number[] {
  const sizes = values.map(Math.abs);
  const largest = Math.max(...sizes);
  if (!(largest > 0)) return sizes.map(() => 0);
  const least = Math.min(...sizes.filter((size) => size > 0));
  if (largest / least <= FAR) return sizes.map((size) => size / largest);
  const decades = Math.log10(largest / least) + 1;
  return sizes.map((size) => (size > 0 ? (Math.log10(size / least) + 1) / decades : 0));
}

/** SVG path data of a curve in a box, from the smallest value to the largest; gaps where it was no number. */
export function curvePath(values: readonly (number | null)[], low: number, high: number): string {
  const dx = values.length > 1 ? (WIDTH - 4) / (values.length - 1) : 0;
  let path = "";
  let pen = "M";
  values.forEach((value, index) => {
    if (value === null) {
      pen = "M";
      return;
    }
    const height = high > low ? (value - low) / (high - low) : 0.5;
    path += `${pen}${(2 + index * dx).toFixed(1)} ${(HEIGHT - 3 - height * (HEIGHT - 6)).toFixed(1)}`;
    pen = "L";
  });
  return path;
}

function barsPicture(bars: readonly EvidenceBar[]): HTMLElement {
  const picture = element("div", { class: "pnne-evidence pnne-evidence-bars" });
  const lengths = barLengths(bars.map(({ value }) => value));
  bars.forEach(({ label, value }, index) => {
    const bar = element("i", { "aria-hidden": "true" });
    bar.style.width = `${Math.max(1, Math.round(100 * (lengths[index] ?? 0)))}%`;
    picture.append(
      element("span", {}, label),
      element("span", { class: "pnne-evidence-track" }, bar),
      element("b", {}, shortNumber(value)),
    );
  });
  return picture;
}

function curvesPicture(curves: readonly EvidenceCurve[]): HTMLElement {
  const known = curves.flatMap(({ values }) => values.filter((value) => value !== null));
  const logarithmic = known.length > 0 && Math.min(...known) > 0 && Math.max(...known) > FAR * Math.min(...known);
  const scaled = (value: number | null) => (value === null || !logarithmic ? value : Math.log10(value));
  const [low, high] = [Math.min(...known), Math.max(...known)].map((value) => scaled(value) ?? 0) as [number, number];
  const names = curves.map(({ label }) => label).join(" and ");
  const range = `${shortNumber(Math.min(...known))} to ${shortNumber(Math.max(...known))}`;
  const picture = svgElement(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `The ${names} until then: ${range}` },
    ...curves.map(({ values }) => svgElement("path", { d: curvePath(values.map(scaled), low, high) })),
  );
  const last = curves[0]?.values.findLastIndex((value) => value !== null) ?? -1;
  const value = curves[0]?.values[last];
  if (curves.length === 1 && value !== undefined) {
    const only = (curves[0]?.values ?? []).map((each, index) => (index === last ? scaled(each) : null));
    const place = curvePath(only, low, high);
    // A line of no length with round ends: a dot where the finding was made.
    picture.append(svgElement("path", { class: "pnne-evidence-now", d: `${place}h0` }));
  }
  const labels = curves.map(({ label }) => element("span", {}, label));
  const key = element("span", { class: "pnne-evidence-key" }, ...labels, element("b", {}, range));
  return element("div", { class: "pnne-evidence pnne-evidence-curve" }, picture, key);
}

export function noticeItem(
  { number, step, message, node, hint, code, alarms, bars, curves }: Notice,
  onDismiss: (number: number) => void,
) {
  const words = element("div", { class: "pnne-notice-words" }, `Step ${step.toLocaleString("en-US")}: `);
  if (node) words.append(element("code", {}, node), " ");
  words.append(message);
  if (hint) words.append(" ", element("span", { class: "pnne-hint" }, hint));
  if (code) words.append(" ", element("code", { title: `pn.explain("${code}")` }, code));
  if (alarms) words.append(" ", element("small", { class: "pnne-alarms" }, alarms));
  const dismiss = element(
    "button",
    { type: "button", class: "pnne-dismiss", title: "Dismiss this finding", "aria-label": `Dismiss: ${message}` },
    "×",
  );
  dismiss.addEventListener("click", () => onDismiss(number));
  const item = element("li", {}, words);
  if (bars.length > 0) item.append(barsPicture(bars));
  else if (curves.length > 0) item.append(curvesPicture(curves));
  item.append(dismiss);
  return item;
}

export function bringBackText(dismissed: number): string {
  if (dismissed === 0) return "";
  return `Show ${dismissed === 1 ? "the dismissed finding" : `${dismissed} dismissed findings`}`;
}
