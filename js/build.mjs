// Builds every entry that exists into the Python package. Usage: node build.mjs [--watch] [--dev]
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "..", "pnne_nb", "widgets", "static");
const MAX_BYTES = 640 * 1024;

const entries = {
  editor: join(here, "src", "editor", "index.tsx"),
  loader: join(here, "src", "loader", "index.ts"),
  controls: join(here, "src", "controls", "index.ts"),
  explorer: join(here, "src", "explorer", "index.ts"),
  canvas: join(here, "src", "canvas", "index.ts"),
};

/** Scopes React Flow's global style sheet: anywidget adds our CSS to the whole page. */
const scopeReactFlow = {
  name: "scope-react-flow",
  setup(build) {
    build.onLoad({ filter: /@xyflow[\\/]react[\\/]dist[\\/]style\.css$/ }, ({ path }) => {
      const keyframes = [];
      const rules = readFileSync(path, "utf8").replace(/@keyframes[^{]+\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}/g, (block) => {
        keyframes.push(block);
        return "";
      });
      return { contents: `${keyframes.join("\n")}\n.pnne-editor {\n${rules}\n}`, loader: "css" };
    });
  },
};

/**
 * What esbuild is to leave out, which we do not use: components of React Flow need not be made; only the view moves, by
 * d3's zoom, so that nothing has colours, texts or elements of d3's.
 */
const UNUSED = [
  [
    /@xyflow[\\/]react[\\/]dist[\\/]esm[\\/]index\.m?js$/,
    (text) =>
      text
        .replace(/^const (\w+) = (memo|forwardRef|fixedForwardRef)\(/gm, "const $1 = /* @__PURE__ */ $2(")
        .replace(/^\w+\.displayName = .*$/gm, ""),
  ],
  [
    /@xyflow[\\/]system[\\/]dist[\\/]esm[\\/]index\.m?js$/,
    (text) => text.replaceAll("options?.interpolate === 'linear' ? interpolate : interpolateZoom", "interpolateZoom"),
  ],
  [
    /d3-(selection|transition)[\\/](dist|src)[\\/].*\.m?js$/,
    (text) =>
      text.replace(
        /^ +(style(?=: transition)|\w*[aA]ttr|text|data|html|classed|join|enter|exit|order|sort|raise|lower|append|insert|remove|clone|(attr|text|style)Tween|easeVarying|select(All|Child|Children)): \w+(\.\w+)?,\n/gm,
        "",
      ),
  ],
  [
    /d3-(interpolate|ease)[\\/](dist|src)[\\/].*\.m?js$/,
    (text) => text.replace(/^var \w+ = (?=\w+\(|\(function)/gm, "$&/* @__PURE__ */ "),
  ],
];

const dropUnused = {
  name: "drop-unused",
  setup(build) {
    for (const [filter, cut] of UNUSED)
      build.onLoad({ filter }, ({ path }) => ({ contents: cut(readFileSync(path, "utf8")), loader: "js" }));
  },
};

const dev = process.argv.includes("--dev");
const options = {
  entryPoints: Object.fromEntries(Object.entries(entries).filter(([, path]) => existsSync(path))),
  outdir: out,
  bundle: true,
  format: "esm",
  target: ["es2022", "chrome111", "firefox113", "safari16.4"],
  minify: !dev,
  sourcemap: dev ? "inline" : false,
  define: { "process.env.NODE_ENV": dev ? '"development"' : '"production"' },
  jsx: "automatic",
  legalComments: "none",
  pure: ["console.log", "console.warn"], // notes of libraries to those who write code with them
  charset: "utf8",
  logLevel: "warning",
  plugins: [scopeReactFlow, dropUnused],
};

if (process.argv.includes("--watch")) {
  const context = await esbuild.context(options);
  await context.watch();
} else {
  await esbuild.build(options);
  for (const name of Object.keys(options.entryPoints)) {
    for (const kind of ["js", "css"]) {
      const path = join(out, `${name}.${kind}`);
      if (!existsSync(path)) continue;
      const { size } = statSync(path);
      console.log(`${name}.${kind}  ${(size / 1024).toFixed(0)} KB`);
      if (kind === "js" && !dev && size > MAX_BYTES) {
        throw new Error(`${name}.js has ${size} bytes; it travels with every widget model, the limit is ${MAX_BYTES}.`);
      }
    }
  }
}
