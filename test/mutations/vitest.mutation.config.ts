// The usual tests on a product that is broken in one place: the text is replaced while the module is loaded, nothing is
// written. GPVE_MUTATION names the mutation.
import { resolve } from "node:path";
import { defineConfig } from "vitest/config";
import { mutations } from "./mutations.ts";

const root = resolve(import.meta.dirname, "../..");
const mutation = mutations.find(({ name }) => name === process.env["GPVE_MUTATION"]);
if (mutation === undefined) throw new Error("GPVE_MUTATION must name one of test/mutations/mutations.ts");
const file = resolve(root, mutation.file);

export default defineConfig({
  root,
  plugins: [
    {
      name: "mutation",
      enforce: "pre",
      transform(code, id) {
        if (id.split("?", 1)[0] !== file) return undefined;
        console.log(`mutated ${mutation.file}`);
        return code.replace(mutation.find, () => mutation.replace);
      },
    },
  ],
  test: {
    include: [
      "packages/*/src/**/*.test.ts",
      "test/conformance/**/*.test.ts",
      "test/integration/guests/*.test.ts",
    ],
    pool: "forks",
    // Modules are kept between runs by their own text: what one mutation broke would be broken for the next ones, too.
    fsModuleCache: false,
    // A test that asserts nothing cannot fail.
    expect: { requireAssertions: true },
    maxWorkers: 1,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
