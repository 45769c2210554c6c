import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/**/*.test.ts", "tests/**/*.test.tsx"],
    environment: "node",
    // Nothing is measured: vitest's own five and ten seconds are too few for a busy machine.
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
