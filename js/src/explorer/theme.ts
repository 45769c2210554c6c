import type { PageTheme } from "../protocol";

/** The theme of the page: what its host says, or else what the person's system says. */
export function pageTheme(): PageTheme {
  const { jpThemeLight, vscodeThemeKind, theme } = document.body.dataset;
  if (jpThemeLight !== undefined) return jpThemeLight === "false" ? "dark" : "light";
  if (vscodeThemeKind !== undefined) return vscodeThemeKind.includes("light") ? "light" : "dark";
  if (theme === "dark" || theme === "light") return theme; // marimo's
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
