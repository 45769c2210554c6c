import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("../src", import.meta.url));

/**
 * The folders of js/src and the files beside them. Each imports only what stands in a line below its own; those in one
 * line do not import each other.
 */
const LAYERS = [
  ["loader", "editor/index"],
  ["editor/App"],
  // The dialog for exporting, which shows problems as the panels do.
  ["editor/exporting"],
  // What surrounds the graph knows the graph, and not the other way round.
  ["editor/panels", "editor/overlays"],
  ["editor/canvas"],
  // Inputs for values, in panels and on cards alike.
  ["editor/fields"],
  // What a person does, without saying how it looks.
  ["editor/commands"],
  // What is seen, as plain values: no React here.
  ["editor/scene"],
  ["editor/host"],
  ["editor/session"],
  ["editor/document", "editor/values"],
  // Any of our widgets, where a page can load no others.
  ["canvas"],
  ["controls", "explorer"],
  ["protocol"],
];

const MOST_FILES = 16;

const SPECIFIER = /(?:from|import|import\()\s*"(\.{1,2}\/[^"]+)"/g;

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? sources(path) : /\.tsx?$/.test(path) && !path.endsWith(".d.ts") ? [path] : [];
  });
}

/** A path in js/src as the table names it, without its ending. */
function named(path: string): string {
  return relative(ROOT, path)
    .split(sep)
    .join("/")
    .replace(/\.tsx?$/, "");
}

function unitOf(module: string): string | undefined {
  return LAYERS.flat().find((unit) => module === unit || module.startsWith(`${unit}/`));
}

function levelOf(unit: string): number {
  return LAYERS.findIndex((layer) => layer.includes(unit));
}

/** Why a module may not import another, or null. */
function against(module: string, imported: string): string | null {
  const [from, to] = [unitOf(module), unitOf(imported)];
  if (from === undefined || to === undefined || from === to || levelOf(from) < levelOf(to)) return null;
  return `${module} imports ${imported}: ${to} does not stand below ${from}`;
}

const FILES = sources(ROOT);

test("every file of js/src has a place in the layers", () => {
  expect(FILES.map(named).filter((module) => unitOf(module) === undefined)).toEqual([]);
});

test("imports point down the layers", () => {
  const wrong = FILES.flatMap((file) => {
    const imported = [...readFileSync(file, "utf8").matchAll(SPECIFIER)].map(([, path]) => path ?? "");
    return imported
      .filter((path) => !path.endsWith(".css"))
      .map((path) => against(named(file), named(join(dirname(file), path))))
      .filter((line) => line !== null);
  });
  expect(wrong).toEqual([]);
});

test("an import that points up, or to a neighbour, is found", () => {
  expect(against("editor/scene/view", "editor/document/frame")).toBeNull();
  expect(against("editor/canvas/InlineForm", "editor/panels/Toolbar")).toBe(
    "editor/canvas/InlineForm imports editor/panels/Toolbar: editor/panels does not stand below editor/canvas",
  );
  expect(against("controls/bar", "explorer/keys")).toBe(
    "controls/bar imports explorer/keys: explorer does not stand below controls",
  );
});

test(`no folder has more than ${MOST_FILES} files`, () => {
  const counts = new Map<string, number>();
  for (const file of FILES) counts.set(dirname(named(file)), (counts.get(dirname(named(file))) ?? 0) + 1);
  expect([...counts].filter(([, count]) => count > MOST_FILES)).toEqual([]);
});
