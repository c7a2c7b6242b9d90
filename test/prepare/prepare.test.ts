// What the tests use and this machine does not have yet: brought once, before any of them, with the machine to itself.
// A compiler beside an emulated guest starves the guest, and what failed then said nothing about the product.
import { rmSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { npmClients, pypiPython, skipping } from "../support/foreign-clients.ts";
import { BUILD_MS, goPrograms, lacksGo } from "../support/go-clients.ts";
import { tinyImage } from "../support/images.ts";
import { areComponentsCached, ctl, startWithComponents } from "../support/vclusters.ts";

const noGo = await lacksGo();
const CLUSTER_MS = 45 * 60_000;

test("the tiny Linux", async () => {
  expect(await tinyImage()).toMatch(/\.qcow2$/);
}, 600_000);

describe.skipIf(skipping("clients in Go", noGo))("clients in Go", () => {
  for (const name of Object.keys(goPrograms) as (keyof typeof goPrograms)[])
    test(
      name,
      async () => {
        expect(await goPrograms[name]()).toMatch(/^\//);
      },
      BUILD_MS,
    );
});

describe("clients of registries", () => {
  test.each(["requirements.txt", "kubernetes/requirements.txt"])("%s", async (pins) => {
    expect(await pypiPython(pins)).toMatch(/python$/);
  });

  test.each(["npm", "s3", "kubernetes"])("npm: %s", async (pins) => {
    expect(await npmClients(pins)).toMatch(/^\//);
  });
});

const cannot = process.getuid?.() === 0 ? noGo : "needs root";

describe.skipIf(areComponentsCached || skipping("Kubernetes", cannot))("Kubernetes", () => {
  test(
    "comes with the first cluster that is made",
    async () => {
      const gpve = await startWithComponents();
      const made = await ctl(gpve, "vc", "create", "first", "--workers", "1", "--wait", "--timeout", "2600s");
      console.info(made.err);
      expect(made).toMatchObject({
        code: 0,
        out: expect.stringContaining("Virtual cluster first runs Kubernetes 1."),
      });
      expect(await ctl(gpve, "vc", "delete", "first", "--yes")).toMatchObject({ code: 0 });
      await gpve.stop();
      rmSync(gpve.data, { recursive: true, force: true });
    },
    CLUSTER_MS,
  );
});
