import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CatalogueImage } from "@gpve/domain/image/catalogue.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { OperationView } from "@gpve/kit/operation/record.ts";
import { testEngine, type TestEngine } from "@gpve/kit/testing/operation-engine.ts";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import { fetchText } from "../../infrastructure/images/fetch-text.ts";
import { StorageWorld } from "../../testing/storage-world.ts";
import { buildImageOperation, type ImageOperationDeps, pullImageOperation } from "./image-operations.ts";
import { imageRoutes } from "./image-routes.ts";

const scratch = mkdtempSync(join(tmpdir(), "gpve-image-ops-"));
const qcow2 = join(scratch, "image.qcow2");
const served = new Map<string, string | Buffer>();
let server: Server;
let base = "";
let sum = "";

beforeAll(async () => {
  await exec("qemu-img", ["create", "-q", "-f", "qcow2", qcow2, "1M"]);
  sum = createHash("sha256").update(readFileSync(qcow2)).digest("hex");
  server = createServer((req, res) => {
    const body = served.get(req.url ?? "");
    res.statusCode = body === undefined ? 404 : 200;
    res.end(body ?? "nothing here");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
  rmSync(scratch, { recursive: true, force: true });
});

const catalogue = (): CatalogueImage[] => [
  { name: "good", about: "an image", url: `${base}/x.qcow2`, checksums: `${base}/SUMS`, recipe: "debian" },
  { name: "alpine", about: "only pulled", url: `${base}/a.qcow2`, checksums: `${base}/NONE` },
];

const depsOf = (world: StorageWorld): ImageOperationDeps => ({
  storages: world.storages,
  files: world.files,
  fetcher: world.fetcher,
  catalogue: catalogue(),
  fetchText: (url, signal) => fetchText(world.fetcher, url, signal),
  build: async (recipe, { say }) => {
    say(`made ${recipe}`);
    return qcow2;
  },
});

const imports = (world: StorageWorld): string[] => {
  const folder = join(world.root, "local/import");
  return existsSync(folder) ? readdirSync(folder) : [];
};

describe("images on a node", () => {
  let world: StorageWorld;
  let operations: TestEngine;
  beforeEach(async () => {
    world = new StorageWorld();
    operations = testEngine();
    const deps = depsOf(world);
    operations.engine.register(pullImageOperation(deps));
    operations.engine.register(buildImageOperation(deps));
    await operations.engine.start();
    served.clear();
    served.set("/x.qcow2", readFileSync(qcow2));
    served.set("/SUMS", `${"0".repeat(64)}  other.qcow2\n${sum}  x.qcow2\n`);
  });
  afterEach(() => world.remove());

  const context = (granted = true): RequestContext =>
    ({
      actor: { userid: "joe@pve", authid: "joe@pve" },
      access: {
        require: (path: string) => {
          if (!granted) throw new AppError("access.denied", `no right on ${path}`);
        },
      },
    }) as unknown as RequestContext;
  let asked = 0;
  const call = async (
    route: keyof ReturnType<typeof imageRoutes>,
    params: object,
    granted = true,
  ): Promise<unknown> => {
    const { engine } = operations;
    const routes = imageRoutes({ storages: world.storages, catalogue: catalogue(), engine });
    const request = { node: "n1", image: "", storage: "local", requestId: `r${++asked}`, ...params };
    return routes[route](request, context(granted));
  };
  const make = async (verb: "pull" | "build", image: string, more: object = {}): Promise<OperationView> => {
    const upid = await call(`POST /gpve/nodes/{node}/images/{image}/${verb}`, { image, ...more });
    return operations.engine.wait(String(upid));
  };

  test("are pulled, checked and stored, and not pulled twice", async () => {
    expect(await make("pull", "good")).toMatchObject({ state: "done" });
    expect(imports(world)).toEqual(["good.qcow2"]);
    served.delete("/x.qcow2");
    expect(await make("pull", "good")).toMatchObject({ state: "done" });
  });

  test("that are older than the publisher's are replaced", async () => {
    const path = world.put("import/good.qcow2", "old");
    expect(await make("pull", "good", { requestId: "r1" })).toMatchObject({ state: "done" });
    expect(readFileSync(path).length).toBeGreaterThan(1000);
  });

  test("that differ from their publisher's checksum are thrown away", async () => {
    served.set("/x.qcow2", "tampered with");
    const ended = await make("pull", "good");
    expect(ended.state).not.toBe("done");
    expect(JSON.stringify(ended)).toContain("checksum mismatch");
    expect(imports(world)).toEqual([]);
  });

  test("without a checksum are never fetched", async () => {
    served.set("/SUMS", "nothing about it\n");
    expect(JSON.stringify(await make("pull", "good"))).toContain("has no checksum for x.qcow2");
    expect((await make("pull", "alpine")).state).not.toBe("done");
    expect(imports(world)).toEqual([]);
  });

  test("that are no images are refused even with the right checksum", async () => {
    served.set("/x.qcow2", "text");
    served.set("/SUMS", `${createHash("sha256").update("text").digest("hex")}  x.qcow2\n`);
    expect((await make("pull", "good")).state).not.toBe("done");
    expect(imports(world)).toEqual([]);
  });

  test("are built under the name they were asked for by", async () => {
    expect(await make("build", "tiny")).toMatchObject({ state: "done" });
    expect(await make("build", "good")).toMatchObject({ state: "done" });
    expect(imports(world).toSorted()).toEqual(["good.qcow2", "tiny.qcow2"]);
  });

  test("are listed with what is here", async () => {
    await make("build", "tiny");
    const rows = (await call("GET /gpve/nodes/{node}/images", { storage: "local" })) as { name: string }[];
    expect(rows.map(({ name }) => name)).toEqual(["good", "alpine", "tiny", "lb", "debian"]);
    expect(rows[2]).toMatchObject({ volume: "local:import/tiny.qcow2", build: true, pull: false });
    expect(rows[1]).toEqual({ name: "alpine", about: "only pulled", pull: true, build: false });
  });

  test("that nobody knows, that cannot be built, or that one may not make are refused", async () => {
    await expect(make("pull", "tiny")).rejects.toThrow("image 'tiny' cannot be pulled, only built");
    await expect(make("pull", "nope")).rejects.toThrow("it has good, alpine");
    await expect(make("build", "alpine")).rejects.toThrow("only pulled");
    await expect(make("build", "tiny", { storage: "gone" })).rejects.toThrow("does not exist");
    await expect(call("GET /gpve/nodes/{node}/images", {}, false)).rejects.toThrow(
      "no right on /storage/local",
    );
  });

  test("whose list of checksums is endless are not believed", async () => {
    served.set("/long", "x".repeat(5 * 1024 * 1024));
    await expect(fetchText(world.fetcher, `${base}/long`, new AbortController().signal)).rejects.toThrow(
      "too long",
    );
  });
});

describe("image operations end done or undone, wherever they are cut off", () => {
  test.each([
    { type: "imagepull", args: { image: "good", storage: "local" } },
    { type: "imagebuild", args: { recipe: "tiny", image: "good", storage: "local" } },
  ])("$type", async ({ type, args }) => {
    served.set("/x.qcow2", readFileSync(qcow2));
    served.set("/SUMS", `${sum}  x.qcow2\n`);
    await testSaga<StorageWorld>({
      prepare: () => Promise.resolve(new StorageWorld()),
      define: (engine, world) => {
        engine.register(pullImageOperation(depsOf(world)));
        engine.register(buildImageOperation(depsOf(world)));
        return { type, args, resources: ["image/local/good"] };
      },
      check: (world, outcome) => {
        const left = imports(world);
        if (outcome === "done") expect(left).toEqual(["good.qcow2"]);
        else expect(left.filter((name) => name !== "good.qcow2")).toEqual([]);
      },
      cleanup: (world) => world.remove(),
    });
  });
});
